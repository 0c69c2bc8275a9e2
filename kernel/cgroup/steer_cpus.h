/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: which CPUs the tasks of a group may use
 */
#ifndef _KERNEL_CGROUP_STEER_CPUS_H
#define _KERNEL_CGROUP_STEER_CPUS_H

#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/sched/isolation.h>

#ifdef CONFIG_CPUSETS

#include "cpuset-internal.h"

/* The effective cpuset of @cgrp */
static inline void steer_cpuset(struct cgroup *cgrp, struct cpumask *cpus)
{
	rcu_read_lock();
	cpuset_callback_lock_irq();
	cpumask_copy(cpus, css_cs(cgroup_e_css(cgrp, &cpuset_cgrp_subsys))->effective_cpus);
	cpuset_callback_unlock_irq();
	rcu_read_unlock();
}

#else /* !CONFIG_CPUSETS */

static inline void steer_cpuset(struct cgroup *cgrp, struct cpumask *cpus)
{
	cpumask_copy(cpus, cpu_possible_mask);
}

#endif /* CONFIG_CPUSETS */

/**
 * steer_cgroup_cpus - the CPUs that the tasks of a group may use
 * @cgrp: the group
 * @cpus: its effective cpuset, without the CPUs that were isolated at boot,
 *	unless there are no others: tasks get there by their own affinity only
 */
static inline void steer_cgroup_cpus(struct cgroup *cgrp, struct cpumask *cpus)
{
	const struct cpumask *shared = housekeeping_cpumask(HK_TYPE_DOMAIN);

	steer_cpuset(cgrp, cpus);
	if (cpumask_intersects(cpus, shared))
		cpumask_and(cpus, cpus, shared);
}

#endif /* _KERNEL_CGROUP_STEER_CPUS_H */
