// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab's cpufreq driver, for modelled machines whose CPUs have performance levels.
 *
 * CPUs that name the same table of operating points in the device tree (operating-points-v2)
 * share a frequency. Of each point opp-hz and opp-microvolt are read, and of the CPU
 * dynamic-power-coefficient, from which the energy model follows as for other drivers. A level
 * is told to the lab's plugin by a no-op, HINT #(0x70 + level), that a CPU of the domain
 * executes; level 0 is the slowest. Elsewhere nothing is told, and nothing else changes.
 *
 * No part of what is delivered: it is in the lab's kernel alone. The driver is registered by
 * steer_lab_cpufreq.on=1, on the command line or by a write to the file of that name in
 * /sys/module, so that an energy model can appear while the machine runs. That is for good, as
 * energy models of CPUs are.
 */
#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/slab.h>
#include <linux/smp.h>

/* The plugin has as many (MAX_LEVELS). */
#define MAX_LEVELS	16

struct lab_level {
	u64		hz;
	u32		microvolt;
};

struct lab_domain {
	struct lab_level		levels[MAX_LEVELS];
	u32				coefficient;
	int				nr;
	unsigned int			level;
	struct cpufreq_frequency_table	table[MAX_LEVELS + 1];
};

#define TELL(level)	case level: asm volatile("hint #(0x70 + " #level ")" ::: "memory"); break

static void lab_tell(void *data)
{
	struct lab_domain *domain = data;

	switch (domain->level) {
	TELL(0); TELL(1); TELL(2); TELL(3); TELL(4); TELL(5); TELL(6); TELL(7);
	TELL(8); TELL(9); TELL(10); TELL(11); TELL(12); TELL(13); TELL(14); TELL(15);
	}
}

static int lab_read_levels(struct device_node *points, struct lab_domain *domain)
{
	int ret;

	for_each_available_child_of_node_scoped(points, point) {
		struct lab_level *level = &domain->levels[domain->nr];

		if (domain->nr == MAX_LEVELS)
			return -E2BIG;
		ret = of_property_read_u64(point, "opp-hz", &level->hz);
		ret = ret ?: of_property_read_u32(point, "opp-microvolt", &level->microvolt);
		if (ret)
			return ret;
		if (domain->nr && level->hz <= level[-1].hz)
			return -EINVAL;
		domain->table[domain->nr].frequency = level->hz / 1000;
		domain->nr++;
	}
	domain->table[domain->nr].frequency = CPUFREQ_TABLE_END;
	return domain->nr ? 0 : -ENOENT;
}

static int lab_init(struct cpufreq_policy *policy)
{
	struct device_node *cpu_node __free(device_node) = of_cpu_device_node_get(policy->cpu);
	struct device_node *points __free(device_node) =
		of_parse_phandle(cpu_node, "operating-points-v2", 0);
	struct lab_domain *domain __free(kfree) = kzalloc(sizeof(*domain), GFP_KERNEL);
	int cpu, ret;

	if (!domain)
		return -ENOMEM;
	if (!points)
		return -ENODEV;
	ret = lab_read_levels(points, domain);
	ret = ret ?: of_property_read_u32(cpu_node, "dynamic-power-coefficient",
					  &domain->coefficient);
	if (ret) {
		pr_err("%pOF: not 1 to %d operating points in order, with a power coefficient\n",
		       points, MAX_LEVELS);
		return ret;
	}

	for_each_possible_cpu(cpu) {
		struct device_node *node __free(device_node) = of_cpu_device_node_get(cpu);
		struct device_node *its __free(device_node) =
			of_parse_phandle(node, "operating-points-v2", 0);

		if (its == points)
			cpumask_set_cpu(cpu, policy->cpus);
	}
	policy->freq_table = domain->table;
	policy->cpuinfo.transition_latency = 0;
	policy->transition_delay_us = 1000;
	policy->fast_switch_possible = true;
	/* As fast as it was until now */
	domain->level = domain->nr - 1;
	policy->cur = domain->table[domain->level].frequency;
	policy->driver_data = no_free_ptr(domain);
	return smp_call_function_any(policy->cpus, lab_tell, policy->driver_data, true);
}

static void lab_exit(struct cpufreq_policy *policy)
{
	kfree(policy->driver_data);
}

static int lab_target_index(struct cpufreq_policy *policy, unsigned int index)
{
	struct lab_domain *domain = policy->driver_data;

	domain->level = index;
	return smp_call_function_any(policy->cpus, lab_tell, domain, true);
}

/* On a CPU of the policy. */
static unsigned int lab_fast_switch(struct cpufreq_policy *policy, unsigned int target_freq)
{
	struct lab_domain *domain = policy->driver_data;

	domain->level = cpufreq_table_find_index_l(policy, target_freq, false);
	lab_tell(domain);
	return domain->table[domain->level].frequency;
}

/* Power at the first level that is no slower: coefficient [uW / MHz / V^2] * f * V^2. */
static int lab_active_power(struct device *dev, unsigned long *microwatt, unsigned long *khz)
{
	struct lab_domain *domain = cpufreq_cpu_get_raw(dev->id)->driver_data;
	int i;

	for (i = 0; i < domain->nr; i++) {
		const struct lab_level *level = &domain->levels[i];
		u64 millivolt = level->microvolt / 1000;

		if (level->hz < *khz * 1000ULL)
			continue;
		*khz = level->hz / 1000;
		*microwatt = domain->coefficient * millivolt * millivolt *
			     (level->hz / 1000000) / 1000000;
		return 0;
	}
	return -EINVAL;
}

static void lab_register_em(struct cpufreq_policy *policy)
{
	struct lab_domain *domain = policy->driver_data;
	struct em_data_callback callback = EM_DATA_CB(lab_active_power);

	em_dev_register_perf_domain(get_cpu_device(policy->cpu), domain->nr, &callback,
				    policy->related_cpus, true);
}

static struct cpufreq_driver lab_driver = {
	.name		= "steer-lab",
	.flags		= CPUFREQ_NEED_INITIAL_FREQ_CHECK,
	.verify		= cpufreq_generic_frequency_table_verify,
	.attr		= cpufreq_generic_attr,
	.init		= lab_init,
	.exit		= lab_exit,
	.target_index	= lab_target_index,
	.fast_switch	= lab_fast_switch,
	.register_em	= lab_register_em,
};

static bool lab_on;

/* The command line is read before anything can be registered. */
static bool lab_ready;

static int lab_set_on(const char *value, const struct kernel_param *param)
{
	bool before = lab_on;
	int ret = param_set_bool(value, param);

	if (ret || lab_on == before)
		return ret;
	if (!lab_on) {
		lab_on = true;
		return -EBUSY;
	}
	ret = lab_ready ? cpufreq_register_driver(&lab_driver) : 0;
	if (ret)
		lab_on = false;
	return ret;
}

static const struct kernel_param_ops lab_on_ops = {
	.set	= lab_set_on,
	.get	= param_get_bool,
};
module_param_cb(on, &lab_on_ops, &lab_on, 0644);
MODULE_PARM_DESC(on, "register the driver");

static int __init lab_cpufreq_init(void)
{
	lab_ready = true;
	return lab_on ? cpufreq_register_driver(&lab_driver) : 0;
}
device_initcall(lab_cpufreq_init);
