// SPDX-License-Identifier: GPL-2.0-only
/*
 * What memory costs: private caches, a shared cache in each LLC, transfers between caches, nodes with bandwidth.
 *
 * A directory has one word for every line of the guest's memory: the core that owns it (the last writer, or the one
 * that loaded it alone), whether others have a copy and how far away, whether memory is out of date, and a version that
 * changes whenever another core takes the line over to write. A cache holds a line only in the version that its tag
 * has, so a write invalidates every other copy without looking for it.
 *
 *   load   own private cache: free (part of the cost of an instruction)
 *          own LLC: llc_hit, or peer if another core's private cache has it alone
 *          a cache of another LLC or node: transfer, remote_transfer
 *          else the memory of the line's home node: memory, remote_memory
 *   store  own and alone: free
 *          a copy that others have, too: upgrade, remote_upgrade, far_upgrade, by the farthest that may have one
 *          else as a load, if an upgrade is not dearer
 *   atomic as a store, also one of load-exclusive and store-exclusive that prefetches for the store
 *
 * Sequential misses are prefetched: from the third line of a stream on, a line costs `stream`, and more from another
 * node, as latency does. Every line fetched from memory, and every written one that leaves its LLC, occupies the home
 * node's memory, the LLC's link and, from another node, the link between nodes, each for the time that its bandwidth
 * says. An access waits for what was left undone at the beginning of the step, less what has been done of it since. It
 * does not see what others ask for in the same step, so the order in which the host ran the vCPUs does not matter, but
 * finds it in the next: on average the queue then passes its bandwidth.
 *
 * Threads of a core share its private cache. Instruction fetches, TLB misses and devices' accesses are free. CPUs touch
 * the tables concurrently without locks: each entry is one word, and a lost update is one wrong charge.
 *
 * In front of all this, each vCPU has a small table by virtual line that knows what the directory said last time; most
 * accesses end there. User addresses in it carry the number of the address space, which changes when the guest writes
 * a translation table base register.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lab.h"

#define FILTER_LINES	512
#define STREAMS		16
#define STREAM_TRAINED	2
#define MAX_NODES	64

/* A directory word. */
#define OWNER_BITS	10
#define OWNER(word)	((word) & ((1u << OWNER_BITS) - 1))	/* core + 1; 0: no cache has it */
#define NEAR		(1u << 10)	/* other cores of the owner's LLC may have a copy */
#define OUTSIDE		(1u << 11)	/* other LLCs of the owner's node */
#define FAR		(1u << 12)	/* other nodes */
#define SHARED		(NEAR | OUTSIDE | FAR)
#define DIRTY		(1u << 13)
#define VERSION_SHIFT	14
#define VERSION(word)	((word) >> VERSION_SHIFT)
#define VERSION_BITS	(32 - VERSION_SHIFT)

enum event {
	LLC_HIT, PEER, TRANSFER, REMOTE_TRANSFER, UPGRADE, REMOTE_UPGRADE, FAR_UPGRADE, MEMORY, REMOTE_MEMORY,
	STREAMED, EVENTS
};

static const char *const event_names[EVENTS] = {
	"llc_hit", "peer", "transfer", "remote_transfer", "upgrade", "remote_upgrade", "far_upgrade", "memory",
	"remote_memory", "streamed"
};

/* A cache: in each way line + 1 and version; 0 is empty. */
struct cache {
	uint64_t *ways;
	uint32_t sets, associativity, random;
};

struct filter_line {
	uint64_t tag;
	uint32_t *word, seen;
	bool writable;
};

/* A thing that passes one line at a time. */
struct pipe {
	uint64_t used, backlog, line;
} __attribute__((aligned(64)));

struct cache_cpu {
	struct filter_line filter[FILTER_LINES];
	struct { uint64_t next; unsigned int hits; } streams[STREAMS];
	uint64_t address_space, counts[EVENTS];
	unsigned int core, llc, node, oldest_stream;
} __attribute__((aligned(64)));

static bool enabled;
static uint32_t *directory;
static uint64_t lines, lines_per_node;
static struct cache_cpu *cpus;
static struct cache *private_caches, *llcs;
static struct pipe node_pipes[MAX_NODES], *llc_pipes, link_pipes[MAX_NODES];

static bool make_cache(struct cache *cache, uint64_t kib, uint64_t ways)
{
	cache->associativity = ways;
	cache->sets = kib * 1024 / (1 << LINE_SHIFT) / ways;
	cache->ways = calloc((size_t)cache->sets * ways, sizeof(uint64_t));
	return cache->sets && cache->ways;
}

static uint64_t *set_of(const struct cache *cache, uint64_t line)
{
	return cache->ways + (line % cache->sets) * cache->associativity;
}

static uint64_t entry(uint64_t line, uint32_t word)
{
	return (line + 1) << VERSION_BITS | VERSION(word);
}

static bool has(const struct cache *cache, uint64_t line, uint32_t word)
{
	const uint64_t *set = set_of(cache, line), wanted = entry(line, word);

	for (unsigned int way = 0; way < cache->associativity; way++)
		if (set[way] == wanted)
			return true;
	return false;
}

/* Put a line in, instead of an older version of itself or of another line; returns that other line, or NONE. */
static uint64_t put(struct cache *cache, uint64_t line, uint32_t word)
{
	uint64_t *set = set_of(cache, line), old;
	unsigned int way, empty = cache->associativity;

	for (way = 0; way < cache->associativity; way++) {
		if (set[way] >> VERSION_BITS == line + 1) {
			set[way] = entry(line, word);
			return NONE;
		}
		if (!set[way])
			empty = way;
	}
	/* Not in turn: a stream comes by each set after as many lines as there are sets, often a multiple of the ways. */
	cache->random = cache->random * 1664525 + 1013904223;
	way = empty < cache->associativity ? empty : (uint64_t)cache->random * cache->associativity >> 32;
	old = set[way];
	set[way] = entry(line, word);
	return old ? (old >> VERSION_BITS) - 1 : NONE;
}

static unsigned int llc_of_core(unsigned int core)
{
	return core / options.cores;
}

static unsigned int node_of_llc(unsigned int llc)
{
	return llc / options.llcs;
}

/* Where a core is, seen from another one, as the sharing bit that stands for it. */
static uint32_t distance(unsigned int a, unsigned int b)
{
	unsigned int llc_a = llc_of_core(a), llc_b = llc_of_core(b);

	if (llc_a == llc_b)
		return NEAR;
	return node_of_llc(llc_a) == node_of_llc(llc_b) ? OUTSIDE : FAR;
}

static unsigned int home_of(uint64_t line)
{
	uint64_t node = line / lines_per_node;

	return node < options.nodes ? node : options.nodes - 1;
}

/* One line goes through; returns how long it would have had to wait at the beginning of the step. */
static uint64_t pass(struct pipe *pipe)
{
	__atomic_fetch_add(&pipe->used, pipe->line, __ATOMIC_RELAXED);
	return __atomic_load_n(&pipe->backlog, __ATOMIC_RELAXED);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Pass a line between an LLC and its home node. */
static uint64_t occupy(unsigned int llc, unsigned int home)
{
	uint64_t wait = most(pass(&node_pipes[home]), pass(&llc_pipes[llc]));

	return node_of_llc(llc) == home ? wait : most(wait, pass(&link_pipes[home]));
}

/* Is this miss the next line of a sequential stream that the prefetcher has seen? */
static bool prefetched(struct cache_cpu *c, uint64_t vline)
{
	for (unsigned int i = 0; i < STREAMS; i++)
		if (c->streams[i].next == vline) {
			c->streams[i].next++;
			return c->streams[i].hits++ >= STREAM_TRAINED;
		}
	c->streams[c->oldest_stream].next = vline + 1;
	c->streams[c->oldest_stream].hits = 1;
	c->oldest_stream = (c->oldest_stream + 1) % STREAMS;
	return false;
}

static uint64_t count(struct cache_cpu *c, enum event event, uint64_t cost)
{
	c->counts[event]++;
	return cost;
}

/* What it costs to get a line into a private cache that does not have it; sets who else may have it. */
static uint64_t fetch(struct cache_cpu *c, uint64_t line, uint64_t vline, uint32_t *word)
{
	unsigned int owner = OWNER(*word) - 1, home;
	bool stream = prefetched(c, vline), remote;
	uint64_t cost, wait, passed;

	if (OWNER(*word)) {
		bool mine = has(&llcs[c->llc], line, *word);
		uint32_t where = distance(owner, c->core);
		bool in_owner = owner != c->core && has(&private_caches[owner], line, *word);

		if (mine || (where == NEAR && in_owner)) {
			bool alone = in_owner && where == NEAR && !(*word & SHARED);

			cost = alone ? count(c, PEER, options.peer) : count(c, LLC_HIT, options.llc_hit);
			if (owner != c->core)
				*word |= where;
			return stream && cost > options.stream ? options.stream : cost;
		}
		if (where != NEAR && (in_owner || has(&llcs[llc_of_core(owner)], line, *word))) {
			*word |= where;
			return where == FAR ? count(c, REMOTE_TRANSFER, options.remote_transfer) :
				count(c, TRANSFER, options.transfer);
		}
	}
	*word = (*word & ~((1u << OWNER_BITS) - 1) & ~DIRTY) | (c->core + 1);
	home = home_of(line);
	remote = home != c->node;
	cost = remote ? count(c, REMOTE_MEMORY, options.remote_memory) : count(c, MEMORY, options.memory);
	if (stream)
		cost = count(c, STREAMED, remote ? options.stream * options.remote_memory / options.memory :
			     options.stream);
	wait = occupy(c->llc, home);
	passed = clock_in_step(c - cpus);
	return cost + (wait > passed ? wait - passed : 0);
}

static void write_back(unsigned int llc, uint64_t line)
{
	uint32_t word = __atomic_load_n(&directory[line], __ATOMIC_RELAXED);

	if (!(word & DIRTY) || !OWNER(word) || llc_of_core(OWNER(word) - 1) != llc)
		return;
	__atomic_store_n(&directory[line], word & ~DIRTY, __ATOMIC_RELAXED);
	occupy(llc, home_of(line));
}

static uint64_t upgrade_cost(struct cache_cpu *c, uint32_t word)
{
	uint32_t where = word & SHARED;

	if (OWNER(word) && OWNER(word) - 1 != c->core)
		where |= distance(OWNER(word) - 1, c->core);
	if (where & FAR)
		return count(c, FAR_UPGRADE, options.far_upgrade);
	if (where & OUTSIDE)
		return count(c, REMOTE_UPGRADE, options.remote_upgrade);
	return where ? count(c, UPGRADE, options.upgrade) : 0;
}

static uint64_t tag_of(const struct cache_cpu *c, uint64_t vaddr)
{
	uint64_t vline = vaddr >> LINE_SHIFT;

	return vaddr >> 63 ? vline : vline | c->address_space << 43;
}

static void look_up(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, bool store)
{
	struct cache_cpu *c = &cpus[cpu];
	struct cache *own = &private_caches[c->core];
	struct qemu_plugin_hwaddr *address = qemu_plugin_get_hwaddr(info, vaddr);
	struct filter_line *f;
	uint64_t line, cost = 0;
	uint32_t word, before;
	bool have;

	if (!address || qemu_plugin_hwaddr_is_io(address))
		return;
	line = (qemu_plugin_hwaddr_phys_addr(address) - options.ram_base) >> LINE_SHIFT;
	if (line >= lines)
		return;
	before = word = __atomic_load_n(&directory[line], __ATOMIC_RELAXED);
	have = OWNER(word) && has(own, line, word);
	if (store) {
		bool alone = OWNER(word) == c->core + 1 && !(word & SHARED);

		if (!have || !alone) {
			uint64_t upgrade = upgrade_cost(c, word);

			if (!have)
				cost = fetch(c, line, vaddr >> LINE_SHIFT, &word);
			cost = most(cost, upgrade);
			word = (VERSION(word) + 1) << VERSION_SHIFT | (c->core + 1);
		}
		word |= DIRTY;
	} else if (!have) {
		cost = fetch(c, line, vaddr >> LINE_SHIFT, &word);
	}
	if (word != before)
		__atomic_store_n(&directory[line], word, __ATOMIC_RELAXED);
	if (!have || VERSION(word) != VERSION(before)) {
		uint64_t evicted;

		put(own, line, word);
		evicted = put(&llcs[c->llc], line, word);
		if (evicted != NONE)
			write_back(c->llc, evicted);
	}
	f = &c->filter[(vaddr >> LINE_SHIFT) % FILTER_LINES];
	f->tag = tag_of(c, vaddr);
	f->word = &directory[line];
	f->seen = word;
	f->writable = OWNER(word) == c->core + 1 && !(word & SHARED) && (word & DIRTY);
	if (cost)
		clock_charge(cpu, cost);
}

static bool known(const struct cache_cpu *c, uint64_t vaddr, bool store)
{
	const struct filter_line *f = &c->filter[(vaddr >> LINE_SHIFT) % FILTER_LINES];

	return f->tag == tag_of(c, vaddr) && (!store || f->writable) &&
	       __atomic_load_n(f->word, __ATOMIC_RELAXED) == f->seen;
}

void cache_load(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused)
{
	if (enabled && !known(&cpus[cpu], vaddr, false))
		look_up(cpu, info, vaddr, false);
}

void cache_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused)
{
	if (enabled && !known(&cpus[cpu], vaddr, true))
		look_up(cpu, info, vaddr, true);
}

void cache_address_space_changed(unsigned int cpu, void *unused)
{
	/* Below all ones, which kernel addresses have there. */
	cpus[cpu].address_space = (cpus[cpu].address_space + 1) % 0x7fff;
}

void cache_enable(bool on)
{
	enabled = on && options.cache;
}

static void drain(struct pipe *pipe, uint64_t ps)
{
	uint64_t work = pipe->backlog + __atomic_exchange_n(&pipe->used, 0, __ATOMIC_RELAXED);

	__atomic_store_n(&pipe->backlog, work > ps ? work - ps : 0, __ATOMIC_RELAXED);
}

void cache_time_passed(uint64_t ps)
{
	if (!enabled)
		return;
	for (unsigned int i = 0; i < options.nodes; i++) {
		drain(&node_pipes[i], ps);
		drain(&link_pipes[i], ps);
	}
	for (unsigned int i = 0; i < options.nodes * options.llcs; i++)
		drain(&llc_pipes[i], ps);
}

bool cache_start(void)
{
	unsigned int n_cores = cpu_count() / options.threads, n_llcs = options.nodes * options.llcs;

	if (!options.cache)
		return true;
	lines = options.ram_bytes >> LINE_SHIFT;
	lines_per_node = lines / options.nodes;
	/* Most of it is never touched. */
	directory = mmap(NULL, lines * sizeof(*directory), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cpus = aligned_alloc(64, cpu_count() * sizeof(*cpus));
	private_caches = calloc(n_cores, sizeof(*private_caches));
	llcs = calloc(n_llcs, sizeof(*llcs));
	llc_pipes = aligned_alloc(64, n_llcs * sizeof(*llc_pipes));
	if (directory == MAP_FAILED || !cpus || !private_caches || !llcs || !llc_pipes)
		return false;
	memset(cpus, 0, cpu_count() * sizeof(*cpus));
	memset(llc_pipes, 0, n_llcs * sizeof(*llc_pipes));
	for (unsigned int cpu = 0; cpu < cpu_count(); cpu++) {
		cpus[cpu].core = core_of(cpu);
		cpus[cpu].llc = llc_of_core(cpus[cpu].core);
		cpus[cpu].node = node_of_llc(cpus[cpu].llc);
		for (unsigned int i = 0; i < FILTER_LINES; i++)
			cpus[cpu].filter[i].tag = NONE;
	}
	for (unsigned int i = 0; i < n_cores; i++)
		if (!make_cache(&private_caches[i], options.private_kib, options.private_ways))
			return false;
	for (unsigned int i = 0; i < n_llcs; i++) {
		if (!make_cache(&llcs[i], options.llc_kib, options.llc_ways))
			return false;
		llc_pipes[i].line = options.llc_line;
	}
	for (unsigned int i = 0; i < options.nodes; i++) {
		node_pipes[i].line = options.node_line;
		link_pipes[i].line = options.link_line;
	}
	return true;
}

void cache_report(FILE *out)
{
	for (unsigned int event = 0; event < EVENTS; event++) {
		uint64_t sum = 0;

		for (unsigned int cpu = 0; cpus && cpu < cpu_count(); cpu++)
			sum += cpus[cpu].counts[event];
		fprintf(out, "%s\"%s\": %lu", event ? ", " : "", event_names[event], sum);
	}
}
