# SPDX-License-Identifier: GPL-2.0-only
# The front door. Every target sets up what it needs; run as root where packages are missing.
KVER ?= 6.12
ARCH ?= $(shell uname -m | sed s/aarch64/arm64/)
export KVER ARCH ACCEL APPEND CARGO DESTDIR PREFIX FLAVOUR ENGINES BUILD DEBUG_SYMBOLS REPO REPO_KEY UNTESTED
MAKEFLAGS += --no-print-directory --no-builtin-rules
PYTHON := PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3
# The command goes to the lab as it was written; a $ in it is none of make's.
override CMD := $(value CMD)
export CMD

help: ## this list
	@echo "make TARGET [KVER=$(KVER)] [ARCH=x86_64|arm64] [ACCEL=kvm|tcg]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

demo: setup-vm ## build, boot a machine with four LLCs, and show what each hint does
	@$(PYTHON) vm/run.py --mode demo --timeout 600

check: setup-check ## run every test (ONLY=step[,step] for some; 'make steps' lists them)
	@$(PYTHON) scripts/check.py $(if $(ONLY),--only $(ONLY))

steps: ## list the steps of 'make check'
	@$(PYTHON) scripts/check.py --list

vm: setup-vm ## a shell in a machine with the built kernel (APPEND= more kernel parameters, TOPOLOGY=)
	@$(PYTHON) vm/run.py --mode shell $(if $(TOPOLOGY),--topology $(TOPOLOGY))

tree: setup-kernel ## the kernel source with hooks and overlay, in build/
	@$(PYTHON) scripts/tree.py

kernel: setup-kernel ## build the kernel (VARIANT=base|debug|jump|rt|tickless|off; lab|lab-ancestors with ARCH=arm64)
	@$(PYTHON) scripts/kbuild.py --variant $(or $(VARIANT),base)

selftests: setup-vm ## run the selftests in the machine (PROGRAM= one, TOPOLOGY=split|quad|dual|nosmt|single|up, VARIANT=debug|jump|rt|tickless, APPEND=; ARCH=arm64 VARIANT=lab TOPOLOGY=biglittle|threekinds PROGRAM=energy_test)
	@$(PYTHON) vm/run.py --mode check $(if $(VARIANT),--variant $(VARIANT)) $(if $(TOPOLOGY),--topology $(TOPOLOGY)) $(if $(PROGRAM),--only $(PROGRAM))

kunit: setup-kernel ## run the KUnit tests under user-mode Linux
	@$(PYTHON) scripts/kunit.py

check-hooks: setup-kernel ## apply the hooks without fuzz and compare their size with the budget
	@$(PYTHON) scripts/check_hooks.py

cgctl: setup-cgctl ## build cgctl, the command line for policies (CARGO= a certain cargo)
	@$(PYTHON) scripts/cgctl.py build

cgctl-tests: setup-cgctl-tests ## run cgctl's tests
	@$(PYTHON) scripts/check.py --only cgctl-tests

unit-files: setup-cgctl-tests ## compare how cgctl and systemd read random unit files (CASES=500, SEED=1)
	@$(PYTHON) scripts/unit_files.py $(if $(CASES),--cases '$(CASES)') $(if $(SEED),--seed '$(SEED)')

install: setup-cgctl ## install cgctl with units, manual pages and completions (DESTDIR= PREFIX=usr)
	@$(PYTHON) scripts/cgctl.py install

systemd: setup-kernel setup-systemd setup-cgctl ## test cgctl with Debian's systemd on the built kernel (ONLY= a part of a name, UNITS=50: fewer at once, RELEASE=trixie)
	@$(PYTHON) vm/systemd.py $(if $(ONLY),--only '$(ONLY)') $(if $(UNITS),--units '$(UNITS)') $(if $(RELEASE),--release '$(RELEASE)')

containers: setup-kernel setup-systemd setup-cgctl setup-containers ## test policies with runc, crun, podman, containerd on the built kernel (ONLY=, CONTAINERS=20: fewer at once, RELEASE=bookworm, ENGINES=newest: runc and containerd from Go modules)
	@$(PYTHON) vm/containers.py $(if $(ONLY),--only '$(ONLY)') $(if $(CONTAINERS),--containers '$(CONTAINERS)') $(if $(RELEASE),--release '$(RELEASE)')

cgctl-deb: setup-cgctl ## a Debian package of cgctl
	@$(PYTHON) scripts/cgctl_deb.py

nri: setup-containers ## build build/nri/cgroup-steer-nri, the plugin for containerd and CRI-O
	@$(PYTHON) scripts/nri.py build

lab: setup-lab ## run CMD='...' on a modelled machine (TOPO=zen, COST='key=value ...', COUNTS=1, SEED=1)
	@$(PYTHON) bench/lab/lab.py $(TOPOLOGY_OPTION) $(COST:%=--cost %) $(if $(SEED),--seed '$(SEED)') $(if $(COUNTS:0=),--counts) -- "$$CMD"

lab-shell: setup-lab ## a console in a modelled machine (TOPO=, COST=)
	@$(PYTHON) bench/lab/lab.py $(TOPOLOGY_OPTION) $(COST:%=--cost %) --shell

lab-check: setup-lab ## compare what the lab measures with what its costs predict (TOPO=; REPEAT=1: do results repeat on a busy host?)
	@$(PYTHON) bench/lab/selfcheck.py $(TOPOLOGY_OPTION) $(if $(REPEAT:0=),--repeat)

rivals: setup-rivals ## build the sched_ext schedulers that the suite apps compares with: root, a chroot of 4 GB, half an hour (ONLY=scx_layered)
	@$(PYTHON) bench/rivals.py $(if $(ONLY),--only '$(ONLY)')

bench: setup-bench ## run a suite (SUITE=hint|numa|energy|headroom|gang|apps|overhead QUICK=1 TOPO= WHERE=lab|host BENCHES= LOADS= CONFIGS= SAMPLES= COST=)
	@$(PYTHON) $(BENCH)

results: setup-bench ## run what bench/results/plan.toml says, and renew the pages of bench/results (ONLY=item[,item], PLAN=1: only say how long it takes)
	@$(PYTHON) bench/renew.py $(if $(ONLY),--only '$(ONLY)') $(if $(PLAN:0=),--plan)

deb: setup-deb ## installable kernel packages from Debian's configuration plus ours (FLAVOUR=cloud: for virtual machines, small: to try it; BUILD=2, DEBUG_SYMBOLS=1)
	@$(PYTHON) scripts/deb.py

deb-config: setup-deb ## only the configuration of 'make deb', compared with Debian's
	@$(PYTHON) scripts/deb.py --configure-only

selftests-deb: setup-kernel ## a Debian package of the kselftests
	@$(PYTHON) scripts/selftests_deb.py

repo: setup-kernel setup-cgctl setup-repo ## a signed apt repository of the packages (REPO= directory, REPO_KEY= fingerprint, FLAVOUR=, BUILD=)
	@$(PYTHON) scripts/repo.py

install-test: setup-deb setup-cgctl setup-repo setup-image ## install, boot, upgrade, remove the packages in Debian machines with GRUB (FLAVOUR=cloud RELEASE=trixie|bookworm, SELFTESTS= options, SECURE_BOOT=1: with UEFI and a key of one's own; hours without KVM)
	@$(PYTHON) $(if $(SECURE_BOOT:0=),vm/secure_boot.py,vm/install_test.py) $(if $(RELEASE),--release '$(RELEASE)') $(if $(SELFTESTS),--selftests '$(SELFTESTS)')

vm-image: setup-deb setup-cgctl setup-repo setup-image ## a qcow2 image with Debian, the built kernel and cgctl, to boot with one command (FLAVOUR=cloud, RELEASE=trixie)
	@$(PYTHON) vm/image.py $(if $(RELEASE),--release '$(RELEASE)')

release: setup-kernel setup-cgctl setup-repo ## packages, repository, checksums, report of tests and a tag in build/release (VERSION=X.Y: first the commit for it; UNTESTED=1)
	@$(PYTHON) scripts/release.py $(if $(VERSION),prepare '$(VERSION)',make)

TOPOLOGY_OPTION = $(if $(TOPO),--topology '$(TOPO)')
SUITE ?= hint
BENCH = bench/run.py --suite '$(SUITE)' $(if $(QUICK:0=),--quick) $(TOPOLOGY_OPTION) $(if $(WHERE),--where '$(WHERE)') \
	$(if $(BENCHES),--benches '$(BENCHES)') $(if $(LOADS),--loads '$(LOADS)') $(if $(CONFIGS),--configs '$(CONFIGS)') \
	$(if $(SAMPLES),--samples '$(SAMPLES)') $(COST:%=--cost '%')

docs: setup-docs ## the documents as HTML, in build/6.12/docs, built by the kernel's own Sphinx set-up
	@$(PYTHON) scripts/docs.py

clean: ## remove everything that was built
	rm -rf build

setup-kernel:
	@scripts/setup kernel
setup-vm:
	@scripts/setup kernel vm
setup-systemd:
	@scripts/setup systemd
setup-cgctl:
	@scripts/setup cgctl
setup-containers:
	@scripts/setup containers
setup-cgctl-tests:
	@scripts/setup cgctl cgctl-tests
setup-docs:
	@scripts/setup docs
setup-deb:
	@scripts/setup kernel deb
setup-repo:
	@scripts/setup repo
setup-image:
	@scripts/setup image
setup-lab:
	@scripts/setup lab
setup-rivals:
	@scripts/setup kernel rivals
setup-bench:
	@scripts/setup bench $(if $(filter host,$(WHERE)),bench-host $(if $(filter apps,$(SUITE)),apps-host),lab)
setup-check:
	@scripts/setup kernel vm systemd cgctl cgctl-tests containers lint docs deb repo bench
	@scripts/setup lab || echo "check: going on without the lab; where its QEMU is missing, the steps that need it are skipped"

.PHONY: help demo check steps vm tree kernel selftests kunit check-hooks lab lab-shell lab-check bench rivals results deb deb-config selftests-deb repo install-test vm-image release docs \
	cgctl cgctl-tests unit-files cgctl-deb install systemd containers nri clean setup-kernel setup-systemd setup-cgctl setup-cgctl-tests setup-containers setup-vm setup-docs setup-deb setup-repo setup-image setup-lab setup-bench setup-rivals setup-check
