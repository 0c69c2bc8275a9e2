// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asks a memcached, redis or web server on this machine, at a rate that does not
 * depend on its answers, and measures how long each answer takes.
 *
 * The load is open, as that of serve.c: when a request arrives is drawn in
 * advance, and its latency is counted from then on, whether or not a connection
 * was free to send it. Without --rate the load is closed: each connection asks
 * again as soon as it has its answer, and latency is counted from the sending.
 *
 * Threads share the connections and the rate evenly; each waits for its own
 * connections and its next arrival in one call of epoll_pwait2(). Keys are drawn
 * at random; all of them are stored before the first request. An answer that is
 * not what the protocol says ends the program.
 *
 * What has no answer a second after the end is given up; it counts with the time
 * that it has waited so far, and is reported as unfinished.
 */
#define _GNU_SOURCE
#include "compute.h"
#include "schedule.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MAX_CONNECTIONS	1024
#define MAX_THREADS	256
#define MAX_SIZE	65536
#define MAX_HEAD	1024		/* bytes of a request or an answer beside the value */
#define GRACE_NS	NSEC_PER_SEC
#define PATIENCE_NS	(20 * NSEC_PER_SEC)
#define RETRY_NS	5000000

static struct {
	const char *kind;
	unsigned long port;
	unsigned long connections;
	unsigned long threads;
	unsigned long rate;		/* requests/s; 0: closed */
	unsigned long size;		/* bytes */
	unsigned long keys;
	unsigned long sets;		/* percent */
	double runtime;			/* s */
	double warmup;			/* s */
	unsigned long seed;
	unsigned long begin;		/* ms of the clock */
	bool json;
} params = {
	.kind = "",
	.connections = 16,
	.threads = 2,
	.size = 64,
	.keys = 1000,
	.sets = 10,
	.runtime = 1,
	.seed = 1,
};

static const struct option_spec specs[] = {
	{ .name = "kind", .unit = "memcached, redis or http", .help = "what the server speaks",
	  .text = &params.kind },
	{ .name = "port", .unit = "a TCP port", .min = 1, .max = 65535,
	  .help = "of 127.0.0.1, where it listens", .count = &params.port },
	{ .name = "connections", .unit = A_NUMBER, .min = 1, .max = MAX_CONNECTIONS,
	  .help = "connections of all threads together", .count = &params.connections },
	{ .name = "threads", .unit = A_NUMBER, .min = 1, .max = MAX_THREADS,
	  .help = "threads that ask; no more than connections", .count = &params.threads },
	{ .name = "rate", .unit = "requests a second", .min = 1, .max = 1e9,
	  .help = "of all threads together, instead of one after the other",
	  .count = &params.rate },
	{ .name = "size", .unit = "a whole number of bytes", .min = 1, .max = MAX_SIZE,
	  .help = "of a value; a web server is asked for a file of this name",
	  .count = &params.size },
	{ .name = "keys", .unit = A_NUMBER, .min = 1, .max = 1000000,
	  .help = "different values", .count = &params.keys },
	{ .name = "sets", .unit = "percent", .min = 0, .max = 100,
	  .help = "requests that store a value; of a web server all read",
	  .count = &params.sets },
	{ .name = "runtime", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "how long to measure", .seconds = &params.runtime },
	{ .name = "warmup", .unit = SECONDS, .min = 0, .max = 86400,
	  .help = "how long to ask before that", .seconds = &params.warmup },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "seed", .unit = A_NUMBER, .min = 0, .max = 1e9,
	  .help = "of arrivals and keys, which are the same each time", .count = &params.seed },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "ask",
	.summary = "Asks a server at a rate of its own, and measures how long each answer takes.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct protocol - how to ask, and what to expect
 * @name:	as --kind has it
 * @get:	writes a request for a key to a buffer of MAX_HEAD, and returns its length
 * @set:	likewise, to store a value, which comes with it; NULL: there is none
 * @got:	writes what the answer to @get begins with
 * @stored:	the whole answer to @set
 * @after:	what comes after the value in an answer
 */
struct protocol {
	const char *name;
	int (*get)(char *buffer, unsigned long key);
	int (*set)(char *buffer, unsigned long key);
	int (*got)(char *buffer, unsigned long key);
	const char *stored;
	const char *after;
};

#define KEY	"key:%08lu"
#define KEY_LENGTH	12

static int memcached_get(char *buffer, unsigned long key)
{
	return sprintf(buffer, "get " KEY "\r\n", key);
}

static int memcached_set(char *buffer, unsigned long key)
{
	return sprintf(buffer, "set " KEY " 0 0 %lu\r\n", key, params.size);
}

static int memcached_got(char *buffer, unsigned long key)
{
	return sprintf(buffer, "VALUE " KEY " 0 %lu\r\n", key, params.size);
}

static int redis_get(char *buffer, unsigned long key)
{
	return sprintf(buffer, "*2\r\n$3\r\nGET\r\n$%d\r\n" KEY "\r\n", KEY_LENGTH, key);
}

static int redis_set(char *buffer, unsigned long key)
{
	return sprintf(buffer, "*3\r\n$3\r\nSET\r\n$%d\r\n" KEY "\r\n$%lu\r\n", KEY_LENGTH, key,
		       params.size);
}

static int redis_got(char *buffer, unsigned long key)
{
	(void)key;
	return sprintf(buffer, "$%lu\r\n", params.size);
}

static int http_get(char *buffer, unsigned long key)
{
	(void)key;
	return sprintf(buffer, "GET /%lu HTTP/1.1\r\nHost: localhost\r\n\r\n", params.size);
}

static int http_got(char *buffer, unsigned long key)
{
	(void)key;
	return sprintf(buffer, "HTTP/1.1 200 ");
}

static const struct protocol protocols[] = {
	{ "memcached", memcached_get, memcached_set, memcached_got, "STORED\r\n", "\r\nEND\r\n" },
	{ "redis", redis_get, redis_set, redis_got, "+OK\r\n", "\r\n" },
	{ "http", http_get, NULL, http_got, "", "" },
};

static const struct protocol *protocol;

/**
 * struct connection - one connection, and the request that it is busy with
 * @fd:		socket
 * @busy:	waits for an answer
 * @set:	to a request that stores a value
 * @key:	of the request
 * @due:	when it arrived, in ns after the begin
 * @got:	bytes of the answer so far
 * @buffer:	the answer, and a byte to end it
 */
struct connection {
	int fd;
	bool busy;
	bool set;
	unsigned long key;
	uint64_t due;
	size_t got;
	char buffer[MAX_SIZE + MAX_HEAD + 1];
};

/**
 * struct asker - a thread
 * @connections:	its connections
 * @nr:			their number
 * @poll:		watches them
 * @arrivals:		state of the random times, apart from that of keys, so that
 *			all loads have the same
 * @choices:		state of the random keys
 * @took:		of each request that counts, how long it took
 * @nr_took:		their number
 * @room:		how many fit
 * @unfinished:		of these, those that were given up
 * @thread:		the thread
 */
struct asker {
	struct connection *connections;
	unsigned int nr;
	int poll;
	uint64_t arrivals;
	uint64_t choices;
	uint64_t *took;
	size_t nr_took;
	size_t room;
	size_t unfinished;
	pthread_t thread;
};

static uint64_t begin_ns, warmup_ns, end_ns;
static pthread_barrier_t barrier;
static char value[MAX_SIZE];

static uint64_t elapsed(void)
{
	return now_ns() - begin_ns;
}

__attribute__((noreturn))
static void refuse_answer(const struct connection *connection)
{
	die(&program, EXIT_FAILED, "not an answer of a %s server: '%.60s'", protocol->name,
	    connection->buffer);
}

/* The answer's whole length; 0 if that cannot be told from what is there. */
static size_t answer_length(const struct connection *connection)
{
	static const char header[] = "\r\ncontent-length: ";
	char expected[MAX_HEAD];
	const char *body, *length;
	size_t begin;

	if (connection->set)
		return strlen(protocol->stored);
	begin = protocol->got(expected, connection->key);
	if (protocol->set)
		return begin + params.size + strlen(protocol->after);
	body = strstr(connection->buffer, "\r\n\r\n");
	if (!body)
		return 0;
	length = strcasestr(connection->buffer, header);
	if (!length || length > body)
		refuse_answer(connection);
	return body + 4 - connection->buffer + strtoul(length + sizeof(header) - 1, NULL, 10);
}

/*
 * What is there begins as the answer has to: an error may be shorter, and would be waited for
 * in vain. Returns how long that beginning is.
 */
static size_t check_begin(const struct connection *connection)
{
	const char *expected = protocol->stored;
	char head[MAX_HEAD];
	size_t length;

	if (connection->set) {
		length = strlen(expected);
	} else {
		length = protocol->got(head, connection->key);
		expected = head;
	}
	if (memcmp(connection->buffer, expected, length < connection->got ? length : connection->got))
		refuse_answer(connection);
	return length;
}

/* The rest of a complete answer */
static void check_rest(const struct connection *connection, size_t begin, size_t length)
{
	size_t after = strlen(protocol->after);

	if (connection->set)
		return;
	if (length < begin + params.size ||
	    memcmp(connection->buffer + length - after, protocol->after, after) ||
	    memcmp(connection->buffer + length - after - params.size, value, params.size))
		refuse_answer(connection);
}

/* Whether the answer is complete; it has then been looked at. */
static bool receive(struct connection *connection)
{
	size_t begin, length;
	ssize_t got;

	got = recv(connection->fd, connection->buffer + connection->got,
		   sizeof(connection->buffer) - 1 - connection->got, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0)
		die(&program, EXIT_FAILED, "the server has ended a connection: %s",
		    got ? strerror(errno) : "end of file");
	connection->got += got;
	connection->buffer[connection->got] = 0;
	begin = check_begin(connection);
	length = answer_length(connection);
	if (!length || connection->got < length) {
		if (connection->got == sizeof(connection->buffer) - 1)
			refuse_answer(connection);
		return false;
	}
	if (connection->got > length)
		refuse_answer(connection);
	check_rest(connection, begin, length);
	connection->busy = false;
	return true;
}

static void send_request(struct connection *connection, unsigned long key, bool set, uint64_t due)
{
	char request[MAX_HEAD + MAX_SIZE + 2];
	size_t length, sent = 0;

	length = set ? protocol->set(request, key) : protocol->get(request, key);
	if (set) {
		memcpy(request + length, value, params.size);
		memcpy(request + length + params.size, "\r\n", 2);
		length += params.size + 2;
	}
	connection->busy = true;
	connection->set = set;
	connection->key = key;
	connection->due = due;
	connection->got = 0;
	while (sent < length) {
		ssize_t nr = send(connection->fd, request + sent, length - sent, MSG_NOSIGNAL);

		if (nr < 0 && errno != EINTR)
			die(&program, EXIT_FAILED, "sending a request: %s", strerror(errno));
		sent += nr > 0 ? nr : 0;
	}
}

/* The server may still be starting. */
static void open_connection(struct connection *connection)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(params.port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint64_t until = now_ns() + PATIENCE_NS;
	int one = 1;

	for (;;) {
		connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connection->fd < 0)
			die(&program, EXIT_FAILED, "a socket: %s", strerror(errno));
		if (!connect(connection->fd, (struct sockaddr *)&address, sizeof(address)))
			break;
		if (errno != ECONNREFUSED || now_ns() > until)
			die(&program, EXIT_FAILED, "port %lu of 127.0.0.1: %s", params.port,
			    strerror(errno));
		close(connection->fd);
		sleep_until(now_ns() + RETRY_NS);
	}
	setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* All keys, so that each request for one finds it */
static void store_values(struct connection *connection)
{
	for (unsigned long key = 0; protocol->set && key < params.keys; key++) {
		send_request(connection, key, true, 0);
		/* receive() does not wait; nobody else has to be waited for here. */
		while (!receive(connection))
			recv(connection->fd, &(char){ 0 }, 1, MSG_PEEK);
	}
}

static void account(struct asker *asker, uint64_t due, uint64_t took)
{
	if (due < warmup_ns)
		return;
	if (asker->nr_took == asker->room) {
		asker->room = asker->room ? 2 * asker->room : 4096;
		asker->took = reallocarray(asker->took, asker->room, sizeof(uint64_t));
		if (!asker->took)
			die(&program, EXIT_FAILED, "no memory for %zu latencies", asker->room);
	}
	asker->took[asker->nr_took++] = took;
}

/* When the next request of a thread arrives; of a closed load, at once. */
static uint64_t next_arrival(struct asker *asker, uint64_t before, uint64_t now)
{
	uint64_t next = now;

	if (params.rate)
		next = before + random_gap(&asker->arrivals, (double)params.rate / params.threads);
	return next < end_ns ? next : NO_MORE;
}

static void wait_for_answers(struct asker *asker, uint64_t until)
{
	struct epoll_event events[MAX_CONNECTIONS];
	uint64_t now = elapsed(), left = until > now ? until - now : 0;
	struct timespec timeout = { .tv_sec = left / NSEC_PER_SEC, .tv_nsec = left % NSEC_PER_SEC };
	int nr = epoll_pwait2(asker->poll, events, ARRAY_SIZE(events), &timeout, NULL);

	if (nr < 0 && errno != EINTR)
		die(&program, EXIT_FAILED, "waiting for answers: %s", strerror(errno));
	for (int i = 0; i < nr; i++) {
		struct connection *connection = events[i].data.ptr;

		if (receive(connection))
			account(asker, connection->due, elapsed() - connection->due);
	}
}

static struct connection *free_connection(struct asker *asker)
{
	for (unsigned int i = 0; i < asker->nr; i++)
		if (!asker->connections[i].busy)
			return &asker->connections[i];
	return NULL;
}

static bool any_busy(const struct asker *asker)
{
	for (unsigned int i = 0; i < asker->nr; i++)
		if (asker->connections[i].busy)
			return true;
	return false;
}

static void give_up(struct asker *asker, uint64_t due, uint64_t now)
{
	account(asker, due, now - due);
	asker->unfinished++;
}

static void *asking_thread(void *arg)
{
	struct asker *asker = arg;
	uint64_t due, now, last = end_ns + GRACE_NS;

	name_thread("ask");
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	due = next_arrival(asker, 0, elapsed());
	while ((now = elapsed()) < last) {
		struct connection *connection = free_connection(asker);

		if (due == NO_MORE && !any_busy(asker))
			break;
		if (connection && due <= now) {
			unsigned long key = next_random(&asker->choices) % params.keys;
			bool set = protocol->set && next_random(&asker->choices) % 100 < params.sets;

			send_request(connection, key, set, due);
			due = next_arrival(asker, due, now);
			continue;
		}
		wait_for_answers(asker, connection && due < last ? due : last);
	}
	for (unsigned int i = 0; i < asker->nr; i++)
		if (asker->connections[i].busy)
			give_up(asker, asker->connections[i].due, now);
	for (; due != NO_MORE && params.rate; due = next_arrival(asker, due, now))
		give_up(asker, due, now);
	return NULL;
}

static void set_up(struct asker *asker, unsigned long index)
{
	int err;

	asker->nr = params.connections / params.threads +
		    (index < params.connections % params.threads);
	asker->connections = allocate_zeroed(&program, asker->nr, sizeof(struct connection));
	asker->arrivals = params.seed << 32 | index;
	asker->choices = ~asker->arrivals;
	asker->poll = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned int i = 0; i < asker->nr; i++) {
		struct connection *connection = &asker->connections[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };

		open_connection(connection);
		if (epoll_ctl(asker->poll, EPOLL_CTL_ADD, connection->fd, &event))
			die(&program, EXIT_FAILED, "watching a connection: %s", strerror(errno));
	}
	err = pthread_create(&asker->thread, NULL, asking_thread, asker);
	if (err)
		die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
}

/* ------------------------------------------------------------------ output */

static void print_latencies(const struct asker *askers)
{
	size_t nr = 0, unfinished = 0;
	double sum = 0;
	uint64_t *all;
	static const struct { const char *key; unsigned int permille; } shown[] = {
		{ "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "p999", 999 }, { "max", 1000 } };

	for (unsigned long i = 0; i < params.threads; i++) {
		nr += askers[i].nr_took;
		unfinished += askers[i].unfinished;
	}
	if (!nr)
		die(&program, EXIT_FAILED, "no request was answered after the warm-up");
	all = allocate_zeroed(&program, nr, sizeof(uint64_t));
	nr = 0;
	for (unsigned long i = 0; i < params.threads; i++)
		for (size_t k = 0; k < askers[i].nr_took; k++)
			sum += all[nr++] = askers[i].took[k];
	qsort(all, nr, sizeof(uint64_t), compare_u64);
	if (params.json)
		printf("{\"benchmark\":\"ask\",\"kind\":\"%s\",\"latency_us\":{", protocol->name);
	else
		printf("%s, latency in us:\n", protocol->name);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		printf(params.json ? "\"%s\":%.3f," : "  %-6s %12.3f\n", shown[i].key,
		       quantile(all, nr, shown[i].permille) / 1e3);
	printf(params.json ? "\"mean\":%.3f," : "  mean   %12.3f\n", sum / nr / 1e3);
	printf(params.json ? "\"samples\":%zu,\"rps\":%.3f},\"unfinished\":%zu," :
			     "  %zu requests, %.3f a second, %zu unfinished\n",
	       nr, (nr - unfinished) / params.runtime, unfinished);
	if (params.json)
		printf("\"parameters\":{\"connections\":%lu,\"threads\":%lu,\"rate\":%lu,\"size\":%lu,"
		       "\"keys\":%lu,\"sets\":%lu,\"runtime\":%g,\"warmup\":%g}}\n",
		       params.connections, params.threads, params.rate, params.size, params.keys,
		       params.sets, params.runtime, params.warmup);
}

static void check_params(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
		if (!strcmp(params.kind, protocols[i].name))
			protocol = &protocols[i];
	if (!protocol)
		die(&program, EXIT_USAGE, "--kind: '%.80s' is not accepted; give memcached, redis or http",
		    params.kind);
	if (!params.port)
		die(&program, EXIT_USAGE, "--port: it is missing; give a TCP port from 1 to 65535");
	if (params.threads > params.connections)
		die(&program, EXIT_USAGE, "--threads: %lu are more than %lu connections", params.threads,
		    params.connections);
	warmup_ns = params.warmup * NSEC_PER_SEC;
	end_ns = warmup_ns + (uint64_t)(params.runtime * NSEC_PER_SEC);
	memset(value, protocol->set ? 'x' : 0, sizeof(value));
}

int main(int argc, char **argv)
{
	struct connection *first;
	struct asker *askers;

	parse_options(&program, argc, argv);
	check_params();
	first = allocate_zeroed(&program, 1, sizeof(*first));
	open_connection(first);
	store_values(first);
	close(first->fd);
	askers = allocate_zeroed(&program, params.threads, sizeof(*askers));
	pthread_barrier_init(&barrier, NULL, params.threads + 1);
	for (unsigned long i = 0; i < params.threads; i++)
		set_up(&askers[i], i);
	pthread_barrier_wait(&barrier);
	begin_at(&program, params.begin);
	begin_ns = now_ns();
	pthread_barrier_wait(&barrier);
	for (unsigned long i = 0; i < params.threads; i++)
		pthread_join(askers[i].thread, NULL);
	print_latencies(askers);
	finish_output(&program);
	return EXIT_SUCCESS;
}
