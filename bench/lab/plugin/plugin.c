// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab's QEMU plugin: options, translation hooks, marks and counts.
 *
 * A program in the guest talks to the lab by hints that real CPUs take for no-ops: HINT #MARK_ON switches the cache
 * model on, HINT #MARK_OFF off, HINT #MARK_COUNT writes a line with everything counted so far to the file that the
 * option `counts` names. Each line is a JSON object. The lab's cpufreq driver says by HINT #MARK_LEVEL + n at which level
 * the CPUs of a domain are.
 *
 * The file of the option `domains` has one domain in each line: how many CPUs, the power of a halted one in uW, and the
 * levels as speed:power, in permille of the fastest CPU's and in uW, with a semicolon behind.
 *
 * Counted are instructions, in the kernel and in user space, the no-ops of the kernel (every static branch that is off
 * is one), and those in the kernel functions that the file of the option `functions` lists, one a line: first address,
 * address after the last, both hexadecimal, and the name. A block of code is counted when it is entered; an exception
 * in its middle counts the rest of it, too.
 */
#include <stdlib.h>
#include <string.h>

#include "lab.h"

#define MARK_ON		0x68
#define MARK_OFF	0x69
#define MARK_COUNT	0x6a
#define MARK_LEVEL	0x70	/* and those after it: the level of the CPU's domain, 0 is the slowest */
#define HINT(n)		(0xd503201fu | (n) << 5)
#define NOP		HINT(0)
/* What spinning code executes while it waits. */
#define YIELD		HINT(1)
#define WFE		HINT(2)
#define WFI		HINT(3)
/* MSR TTBR0_EL1, Xt and MSR TTBR1_EL1, Xt; which X does not matter. */
#define WRITES_TTBR(i)	(((i) & ~0x3fu) == 0xd5182000u)
/*
 * Instructions that load and store at once: LDADD and its like and SWP, but not LDAPR, which is among them; CAS; CASP.
 * PRFM for a store, and the loads LDXR, LDAXR, LDXP and LDAXP, which in the kernel's atomics follow one.
 */
#define IS_ATOMIC(i)	((((i) & 0x3f200c00) == 0x38200000 && ((i) & 0x3ffffc00) != 0x38bfc000) || \
			 ((i) & 0x3fa07c00) == 0x08a07c00 || ((i) & 0xbfa07c00) == 0x08207c00)
#define PREFETCHES_FOR_STORE(i)	(((i) & 0xffc00018) == 0xf9800010)
#define LOADS_EXCLUSIVE(i)	(((i) & 0x3fc00000) == 0x08400000)
/* MSR ICC_SGI1R_EL1, Xt. */
#define SENDS_IPI(i)	(((i) & ~0x1fu) == 0xd518cba0u)

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

struct options options = {
	.nodes = 1, .llcs = 1, .cores = 1, .threads = 1, .quantum = 1000000, .instruction = 1000, .smt_permille = 1000,
};

static const struct { const char *name; uint64_t *value; } table[] = {
	{ "nodes", &options.nodes }, { "llcs", &options.llcs }, { "cores", &options.cores },
	{ "threads", &options.threads }, { "quantum", &options.quantum }, { "paced", &options.paced },
	{ "instruction", &options.instruction }, { "smt_permille", &options.smt_permille },
	{ "ipi", &options.ipi }, { "spin", &options.spin }, { "idle_exit", &options.idle_exit }, { "cache", &options.cache },
	{ "ram_base", &options.ram_base }, { "ram_bytes", &options.ram_bytes },
	{ "private_kib", &options.private_kib }, { "private_ways", &options.private_ways },
	{ "llc_kib", &options.llc_kib }, { "llc_ways", &options.llc_ways }, { "llc_hit", &options.llc_hit },
	{ "peer", &options.peer }, { "transfer", &options.transfer },
	{ "remote_transfer", &options.remote_transfer }, { "upgrade", &options.upgrade },
	{ "remote_upgrade", &options.remote_upgrade }, { "far_upgrade", &options.far_upgrade },
	{ "memory", &options.memory }, { "remote_memory", &options.remote_memory }, { "stream", &options.stream },
	{ "node_line", &options.node_line }, { "llc_line", &options.llc_line }, { "link_line", &options.link_line },
};

static struct qemu_plugin_scoreboard *scoreboard;
static FILE *counts;

static struct { uint64_t first, end; char name[64]; } functions[MAX_FUNCTIONS];
static unsigned int n_functions;

struct vcpu *vcpu(unsigned int cpu)
{
	return qemu_plugin_scoreboard_find(scoreboard, cpu);
}

static qemu_plugin_u64 number(size_t offset)
{
	return (qemu_plugin_u64){ scoreboard, offset };
}

static void report(const char *what)
{
	uint64_t kernel = 0, user = 0, noops = 0;

	if (!counts)
		return;
	for (unsigned int cpu = 0; cpu < cpu_count(); cpu++) {
		kernel += vcpu(cpu)->kernel;
		user += vcpu(cpu)->user;
		noops += vcpu(cpu)->noops;
	}
	fprintf(counts, "{\"at\": \"%s\", ", what);
	clock_report(counts);
	fprintf(counts, ", \"kernel\": %lu, \"user\": %lu, \"noops\": %lu, \"memory\": {", kernel, user,
		noops);
	cache_report(counts);
	fprintf(counts, "}, \"functions\": {");
	for (unsigned int i = 0; i < n_functions; i++) {
		uint64_t sum = 0;

		for (unsigned int cpu = 0; cpu < cpu_count(); cpu++)
			sum += vcpu(cpu)->functions[i];
		fprintf(counts, "%s\"%s\": %lu", i ? ", " : "", functions[i].name, sum);
	}
	fprintf(counts, "}}\n");
	fflush(counts);
}

static void mark(unsigned int cpu, void *what)
{
	if ((uintptr_t)what == MARK_COUNT)
		report("mark");
	else
		cache_enable((uintptr_t)what == MARK_ON);
}

static void translated_instruction(struct qemu_plugin_insn *insn, uint32_t *previous)
{
	uint32_t code = 0, before = *previous;
	bool loads_to_store;

	qemu_plugin_insn_data(insn, &code, sizeof(code));
	*previous = code;
	for (uintptr_t n = MARK_ON; n <= MARK_COUNT; n++)
		if (code == HINT(n))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, QEMU_PLUGIN_CB_NO_REGS, (void *)n);
	for (uintptr_t n = 0; n < MAX_LEVELS; n++)
		if (code == HINT(MARK_LEVEL + n))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, clock_sets_level, QEMU_PLUGIN_CB_NO_REGS, (void *)n);
	if (options.spin && (code == YIELD || code == WFE))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, clock_spins, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (SENDS_IPI(code))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, clock_sends_ipi, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (code == WFI)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, clock_cpu_halts, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (!options.cache)
		return;
	if (WRITES_TTBR(code))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, cache_address_space_changed, QEMU_PLUGIN_CB_NO_REGS,
						       NULL);
	/* What is loaded only to be stored is fetched once, for that. */
	loads_to_store = IS_ATOMIC(code) || (LOADS_EXCLUSIVE(code) && PREFETCHES_FOR_STORE(before));
	qemu_plugin_register_vcpu_mem_cb(insn, loads_to_store ? cache_store : cache_load, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_R, NULL);
	qemu_plugin_register_vcpu_mem_cb(insn, cache_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
}

static uint64_t count_noops(struct qemu_plugin_tb *tb)
{
	uint64_t found = 0;

	if (!(qemu_plugin_tb_vaddr(tb) >> 63))
		return 0;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		uint32_t code = 0;

		qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i), &code, sizeof(code));
		found += code == NOP;
	}
	return found;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t start = qemu_plugin_tb_vaddr(tb);
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint32_t previous = 0;
	uint64_t noops = count_noops(tb);
	qemu_plugin_u64 used = number(offsetof(struct vcpu, used));
	size_t side = start >> 63 ? offsetof(struct vcpu, kernel) : offsetof(struct vcpu, user);

	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, used,
							  n * options.instruction);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, number(side), n);
	if (noops)
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
								  number(offsetof(struct vcpu, noops)), noops);
	for (unsigned int i = 0; i < n_functions; i++)
		if (start >= functions[i].first && start < functions[i].end)
			qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
				number(offsetof(struct vcpu, functions) + i * sizeof(uint64_t)), n);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, clock_quantum_used, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_COND_GE,
						  used, options.quantum, NULL);
	for (size_t i = 0; i < n; i++)
		translated_instruction(qemu_plugin_tb_get_insn(tb, i), &previous);
}

static void cpu_begins(qemu_plugin_id_t id, unsigned int cpu)
{
	clock_cpu_begins(cpu);
}

static void at_exit(qemu_plugin_id_t id, void *unused)
{
	report("exit");
}

static int bad(const char *message, const char *value)
{
	fprintf(stderr, "lab plugin: %s: '%s'\n", message, value);
	return -1;
}

static int read_functions(const char *path)
{
	FILE *in = fopen(path, "re");
	char more[2];

	if (!in)
		return bad("cannot open the list of functions", path);
	while (n_functions < MAX_FUNCTIONS && fscanf(in, "%lx %lx %63s", &functions[n_functions].first,
						     &functions[n_functions].end, functions[n_functions].name) == 3)
		n_functions++;
	if (fscanf(in, "%1s", more) != EOF)
		return bad("more functions than fit, or a line that is not 'first end name'", path);
	fclose(in);
	return 0;
}

static int read_domains(const char *path)
{
	FILE *in = fopen(path, "re");
	struct domain domain;
	char more[2];

	if (!in)
		return bad("cannot open the list of domains", path);
	for (;;) {
		domain = (struct domain){ 0 };
		if (fscanf(in, "%lu %lu", &domain.cpus, &domain.idle) != 2)
			break;
		while (domain.n_levels < MAX_LEVELS &&
		       fscanf(in, "%lu:%lu", &domain.levels[domain.n_levels].speed,
			      &domain.levels[domain.n_levels].power) == 2 &&
		       domain.levels[domain.n_levels].speed)
			domain.n_levels++;
		if (!domain.n_levels || fscanf(in, " %1[;]", more) != 1 || !clock_add_domain(&domain))
			return bad("not 'cpus idle speed:power ...;', or too many", path);
	}
	if (fscanf(in, "%1s", more) != EOF)
		return bad("not 'cpus idle speed:power ...;'", path);
	fclose(in);
	return 0;
}

static int read_option(const char *argument)
{
	const char *value = strchr(argument, '=');
	size_t length = value ? (size_t)(value - argument) : strlen(argument);
	char *end;

	if (!value)
		return bad("not name=value", argument);
	value++;
	if (!strncmp(argument, "counts=", length + 1)) {
		counts = fopen(value, "we");
		return counts ? 0 : bad("cannot write the counts to", value);
	}
	if (!strncmp(argument, "functions=", length + 1))
		return read_functions(value);
	if (!strncmp(argument, "domains=", length + 1))
		return read_domains(value);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strlen(table[i].name) == length && !strncmp(table[i].name, argument, length)) {
			*table[i].value = strtoull(value, &end, 0);
			return *value && !*end ? 0 : bad("not a number", argument);
		}
	return bad("unknown option", argument);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (read_option(argv[i]))
			return -1;
	if (!info->system_emulation || strcmp(info->target_name, "aarch64"))
		return bad("only for qemu-system-aarch64, not for", info->target_name);
	if (cpu_count() != (unsigned int)info->system.smp_vcpus || cpu_count() > MAX_CPUS)
		return bad("nodes x llcs x cores x threads is not the number of CPUs", "-smp");
	scoreboard = qemu_plugin_scoreboard_new(sizeof(struct vcpu));
	if (!cache_start())
		return bad("not enough memory for the cache model, or a cache without sets", "private_kib, llc_kib");
	if (!clock_start())
		return bad("this QEMU does not export what is needed to steer it (built without modules?)", "cpu_exit");
	qemu_plugin_register_vcpu_init_cb(id, cpu_begins);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
