/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the plugin know of each other: clock.c keeps time, cache.c charges for memory, plugin.c joins. */
#ifndef LAB_H
#define LAB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "qemu_plugin_api.h"

#define MAX_CPUS	512
#define MAX_FUNCTIONS	256
#define MAX_DOMAINS	16
#define MAX_LEVELS	16
#define LINE_SHIFT	6
#define NONE		UINT64_MAX

/* The options of the plugin, as given by lab.py; times in picoseconds if nothing else is said. */
struct options {
	uint64_t nodes, llcs, cores, threads;	/* of the machine, of a node, of an LLC, of a core */
	uint64_t quantum;			/* step in which all CPUs advance together */
	uint64_t paced;				/* 1: an idle machine waits in real time (for a console) */
	uint64_t instruction;
	uint64_t smt_permille;			/* a thread's share of its core while its sibling runs */
	uint64_t ipi, idle_exit, spin;
	uint64_t cache;				/* 0: no cache model */
	uint64_t ram_base, ram_bytes;		/* guest-physical; split evenly and in order among the nodes */
	uint64_t private_kib, private_ways, llc_kib, llc_ways;
	uint64_t llc_hit, peer, transfer, remote_transfer;
	uint64_t upgrade, remote_upgrade, far_upgrade;
	uint64_t memory, remote_memory, stream;
	uint64_t node_line, llc_line, link_line; /* time that a line occupies these, from their bandwidth */
};

extern struct options options;

/* The numbers of a vCPU that translated code updates itself. */
struct vcpu {
	uint64_t used;		/* time beyond the machine's, ps */
	uint64_t kernel, user;	/* instructions */
	uint64_t noops;		/* those of the kernel's that are no-ops */
	uint64_t functions[MAX_FUNCTIONS];
};

struct vcpu *vcpu(unsigned int cpu);

static inline unsigned int cpu_count(void)
{
	return options.nodes * options.llcs * options.cores * options.threads;
}

static inline unsigned int core_of(unsigned int cpu)
{
	return cpu / options.threads;
}

/* CPUs that share a frequency, of which it has some levels. */
struct domain {
	uint64_t cpus;
	uint64_t idle;			/* power of a halted CPU, uW */
	unsigned int n_levels;
	struct { uint64_t speed, power; } levels[MAX_LEVELS];	/* permille of the fastest CPU's; of a CPU, uW */
};

/* clock.c */
bool clock_add_domain(const struct domain *domain);
void clock_sets_level(unsigned int cpu, void *level);
bool clock_start(void);
void clock_cpu_begins(unsigned int cpu);
void clock_cpu_halts(unsigned int cpu, void *unused);
void clock_sends_ipi(unsigned int cpu, void *unused);
void clock_spins(unsigned int cpu, void *unused);
void clock_quantum_used(unsigned int cpu, void *unused);
void clock_charge(unsigned int cpu, uint64_t ps);
uint64_t clock_in_step(unsigned int cpu);
uint64_t clock_now(void);
void clock_report(FILE *out);

/* cache.c */
bool cache_start(void);
void cache_enable(bool on);
void cache_address_space_changed(unsigned int cpu, void *unused);
void cache_load(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused);
void cache_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused);
void cache_time_passed(uint64_t ps);
void cache_report(FILE *out);

#endif
