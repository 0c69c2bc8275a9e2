# SPDX-License-Identifier: GPL-2.0-only
"""Versions and control files of packages, and what apt makes of the repository."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import context
import deb
import deb_control
import debian_disk
import debian_package
import release_version
import repo
from common import Fail, capture
from debian_disk import Kind, Machine, Served
from packages import Apt
from page_examples import examples

# As mkdebian of 6.12 writes it
CONTROL = """\
Source: linux-upstream
Section: kernel
Priority: optional
Maintainer: steer <steer@steer>
Build-Depends: debhelper-compat (= 12)
Build-Depends-Arch: bc, bison, cpio, flex,
 gcc-x86-64-linux-gnu <!pkg.linux-upstream.nokernelheaders>,
 rsync
Homepage: https://www.kernel.org/

Package: linux-image-6.12.1-steer0.1.0
Architecture: amd64
Description: Linux kernel, version 6.12.1-steer0.1.0
 This package contains the Linux kernel, modules and corresponding other
 files, version: 6.12.1-steer0.1.0.

Package: linux-libc-dev
Section: devel
Provides: linux-kernel-headers
Architecture: amd64
Description: Linux support headers for userspace development
 This package provides userspaces headers from the Linux kernel.
Multi-Arch: same

Package: linux-headers-6.12.1-steer0.1.0
Architecture: amd64
Build-Profiles: <!pkg.linux-upstream.nokernelheaders>
Description: Linux kernel headers for 6.12.1-steer0.1.0 on amd64
 This package provides kernel header files for 6.12.1-steer0.1.0 on amd64
 .
 This is useful for people who need to build external modules

Package: linux-image-6.12.1-steer0.1.0-dbg
Section: debug
Architecture: amd64
Build-Profiles: <!pkg.linux-upstream.nokerneldbg>
Description: Linux kernel debugging symbols for 6.12.1-steer0.1.0
 This package will come in handy if you need to debug the kernel.
"""


def compare(first: str, relation: str, second: str) -> bool:
    return not subprocess.run(["dpkg", "--compare-versions", first, relation, second], check=False).returncode


def version_sort(*names: str) -> list[str]:
    """As GRUB sorts kernels."""
    return subprocess.run(["sort", "-V"], input="\n".join(names), capture_output=True, text=True, check=True,
                          env=os.environ | {"LC_ALL": "C"}).stdout.split()


class Versions(unittest.TestCase):
    def test_between_debians_and_its_next(self) -> None:
        for base, following in (("6.12.57-1", ("6.12.57-1+b1", "6.12.57-1+deb13u1", "6.12.57-2", "6.12.58-1~deb13u1")),
                                ("6.12.57-1~bpo12+1", ("6.12.57-1~bpo12+1+b1", "6.12.57-1~bpo12+2", "6.12.57-1")),
                                ("6.12.117-1~deb12u1", ("6.12.117-1~deb12u2", "6.12.117-1", "6.12.118-1~deb12u1"))):
            ours = deb.package_version(base, "0.1.0")
            self.assertTrue(compare(ours, "gt", base), ours)
            for later in following:
                self.assertTrue(compare(ours, "lt", later), (ours, later))

    def test_builds_in_order(self) -> None:
        versions = [deb.package_version("6.12.57-1", name) for name in ("0.1.0", "0.1.2", "0.1.10", "0.2.0", "0.10.0")]
        for lower, higher in zip(versions, versions[1:]):
            self.assertTrue(compare(lower, "lt", higher), (lower, higher))

    def test_grub_takes_ours_until_debians_next(self) -> None:
        """And of ours the newest build."""
        wanted = ["6.1.0-40-cloud-amd64", "6.12.57+deb13-cloud-amd64", "6.12.57-steer0.1.0-cloud",
                  "6.12.57-steer0.1.2-cloud", "6.12.57-steer0.1.10-cloud", "6.12.57-steer0.2.0-cloud",
                  "6.12.58+deb13-cloud-amd64", "6.12.58-steer0.1.0-cloud"]
        self.assertEqual(version_sort(*reversed(wanted)), wanted)
        for lower, higher in zip(wanted, wanted[1:]):  # as that of Debian 12 does
            self.assertTrue(compare(lower, "lt", higher), (lower, higher))

    def test_number_of_the_build(self) -> None:
        first, second, third = release_version.of_source().split(".")
        self.assertEqual(release_version.of_packages({}), f"{first}.{second}.{third}")
        self.assertEqual(release_version.of_packages({"BUILD": "12"}), f"{first}.{second}.12")
        for wrong in ("0", "-1", "1.2", "x", "1000000", " 1"):
            with self.assertRaisesRegex(Fail, f"BUILD={wrong}: a whole number from 1 to 999999 is wanted"):
                release_version.of_packages({"BUILD": wrong})

    def test_changelog_has_this_version(self) -> None:
        self.assertEqual(release_version.changelog("Version"), release_version.of_source())
        self.assertRegex(release_version.source_date(), r"^\d{10}$")

    def test_suffix_tells_the_flavour(self) -> None:
        version = release_version.of_source()
        self.assertEqual(deb.local_version(""), f"-steer{version}")
        self.assertEqual(deb.local_version("cloud"), f"-steer{version}-cloud")

    def test_unknown_flavour(self) -> None:
        self.assertRaisesRegex(Fail, "FLAVOUR=rt is not known; leave it empty", deb.flavour_from_environment,
                               {"FLAVOUR": "rt"})


def stanzas(control: str) -> dict[str, dict[str, str]]:
    found = [deb_control.stanza_fields(stanza) for stanza in control.strip().split("\n\n")]
    return {fields.get("Package", "source"): fields for fields in found}


class Control(unittest.TestCase):
    def test_completed(self) -> None:
        found = stanzas(deb_control.complete(CONTROL))
        self.assertEqual(list(found), ["source", "linux-image-6.12.1-steer0.1.0", "linux-headers-6.12.1-steer0.1.0",
                                       "linux-image-6.12.1-steer0.1.0-dbg"])
        self.assertIn("initramfs-tools", found["linux-image-6.12.1-steer0.1.0"]["Depends"])
        self.assertIn("kmod", found["linux-image-6.12.1-steer0.1.0"]["Depends"])
        self.assertIn("libelf1 | libelf1t64", found["linux-headers-6.12.1-steer0.1.0"]["Depends"])
        self.assertEqual(found["source"]["Maintainer"], debian_package.MAINTAINER)
        self.assertEqual(found["source"]["Build-Depends-Arch"].count("\n"), 2)

    def test_texts_stay(self) -> None:
        text = deb_control.complete(CONTROL)
        self.assertIn("\n .\n This is useful for people who need to build external modules\n", text)
        self.assertEqual(stanzas(CONTROL)["linux-image-6.12.1-steer0.1.0-dbg"],
                         stanzas(text)["linux-image-6.12.1-steer0.1.0-dbg"])

    def test_what_is_not_known_is_refused(self) -> None:
        self.assertRaisesRegex(Fail, "wants to make the package 'linux-tools'", deb_control.complete,
                               CONTROL + "\nPackage: linux-tools\nArchitecture: amd64\nDescription: x\n")
        self.assertRaisesRegex(Fail, "makes no package of the image", deb_control.complete,
                               CONTROL.split("\n\nPackage: linux-image")[0])

    def test_fields_that_are_missing(self) -> None:
        self.assertRaisesRegex(Fail, "package x: Version, Maintainer, Description is missing", debian_package.control,
                               {"Package": "x", "Architecture": "all"}, 1)


def small_package(directory: Path, name: str = "cgctl", version: str = "0.1.0", text: str = "one",
                  depends: str = "") -> Path:
    root = directory / f"{name}-{version}-root"
    (root / "usr/share/doc" / name).mkdir(parents=True, exist_ok=True)
    (root / "usr/share/doc" / name / "README").write_text(text, encoding="utf-8")
    fields = {"Package": name, "Version": version, "Architecture": "amd64", "Maintainer": debian_package.MAINTAINER,
              "Description": "a package\nfor tests\n\nof the repository"}
    return debian_package.build(root, fields | ({"Depends": depends} if depends else {}), directory)


class Repository(unittest.TestCase):
    def setUp(self) -> None:
        # pylint: disable-next=consider-using-with
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)
        self.repository = self.work / "repo"
        self.environ = {"HOME": str(self.work)}
        self.key = repo.key(self.environ)

    def published(self, *packages: Path) -> Apt:
        repo.add(packages, self.repository)
        repo.publish(self.repository, self.key)
        return Apt(self.work / "apt", self.repository, self.repository / repo.KEY_FILE)

    def test_apt_installs_from_it(self) -> None:
        apt = self.published(small_package(self.work), small_package(self.work, "steer-selftests", depends="cgctl"))
        self.assertEqual(apt("apt-get", "update").returncode, 0, apt("apt-get", "update").stderr)
        done = apt("apt-get", "install", "--simulate", "steer-selftests")
        self.assertIn("Inst cgctl (0.1.0 cgroup-steer:stable [amd64])", done.stdout, done.stderr)
        done = apt("apt-get", "download", "cgctl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.work / "apt/cgctl_0.1.0_amd64.deb").is_file())

    def test_an_upgrade_and_the_way_back(self) -> None:
        self.published(small_package(self.work))
        apt = self.published(small_package(self.work, version="0.1.2", text="two"))
        apt("apt-get", "update")
        self.assertIn("Inst cgctl (0.1.2", apt("apt-get", "install", "-s", "cgctl").stdout)
        self.assertIn("Inst cgctl (0.1.0", apt("apt-get", "install", "-s", "cgctl=0.1.0").stdout)

    def test_indexes_are_found_by_their_hashes(self) -> None:
        """So that a machine that has read the Release file before a new one was written gets no new indexes."""
        self.published(small_package(self.work))
        packages = self.repository / "dists/stable/main/binary-amd64"
        for name in ("Packages", "Packages.xz"):
            (packages / name).unlink()
        with Served(self.repository, "127.0.0.1") as served:
            apt = Apt(self.work / "apt", served.uri, self.repository / repo.KEY_FILE)
            done = apt("apt-get", "update")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Inst cgctl", apt("apt-get", "install", "--simulate", "cgctl").stdout)

    def test_another_key_is_refused(self) -> None:
        apt = self.published(small_package(self.work))
        other = repo.key({"HOME": str(self.work / "other")})
        self.assertNotEqual(other.fingerprint, self.key.fingerprint)
        repo.publish(self.repository, other)
        (self.repository / repo.KEY_FILE).write_text(self.key.gpg("--armor", "--export", self.key.fingerprint))
        self.assertIn("NO_PUBKEY", apt("apt-get", "update").stderr)

    def test_changed_index_is_refused(self) -> None:
        apt = self.published(small_package(self.work))
        for path in (self.repository / "dists/stable/main/binary-amd64").rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes() + b"\n")
        done = apt("apt-get", "update")
        self.assertRegex(done.stderr, "Hash Sum mismatch|unexpected size")

    def test_what_is_published_stays(self) -> None:
        self.published(small_package(self.work))
        again = small_package(self.work)
        self.assertEqual(repo.add([again], self.repository), [], "the same content is the same package")
        other = small_package(self.work, text="other")
        self.assertRaisesRegex(Fail, "is published with other content.*BUILD=2", repo.add, [other], self.repository)

    def test_key_is_made_once(self) -> None:
        self.assertEqual(repo.key(self.environ), self.key)
        self.assertEqual(repo.key_home(self.environ).stat().st_mode & 0o777, 0o700)

    def test_path_that_is_too_long_for_the_agent(self) -> None:
        self.assertRaisesRegex(Fail, "the path is too long", repo.key, {"HOME": f"{self.work}/{'x' * 80}"})

    def test_key_that_is_not_there(self) -> None:
        self.assertRaisesRegex(Fail, "REPO_KEY=DEADBEEF: no such secret key in the keyring", repo.key,
                               {"REPO_KEY": "DEADBEEF", "HOME": str(self.work)})

    def test_empty(self) -> None:
        (self.repository / "pool").mkdir(parents=True)
        self.assertRaisesRegex(Fail, "has no packages", repo.publish, self.repository, self.key)


def grub_default(kernels: tuple[str, ...], flavour: str = "", settings: str = "GRUB_DEFAULT=0") -> str:
    """What /etc/default/grub.d makes of GRUB's default, on a machine with these kernels."""
    with tempfile.TemporaryDirectory() as directory:
        deb.build_latest("6.12.1-steer0.1.0", flavour, "1", "amd64", Path(directory))
        image, = Path(directory).glob("linux-image-*.deb")
        capture(["dpkg-deb", "--extract", image, directory])
        boot = Path(directory) / "boot"
        boot.mkdir()
        for kernel in kernels:
            (boot / f"vmlinuz-{kernel}").touch()
        snippet, = Path(directory).glob("etc/default/grub.d/*.cfg")
        text = snippet.read_text(encoding="utf-8").replace("/boot/", f"{boot}/")
        return subprocess.run(["sh", "-ec", f"{settings}\n{text}\necho $GRUB_DEFAULT"], capture_output=True, text=True,
                              check=True, env={"PATH": os.environ["PATH"], "GRUB_DEVICE_UUID": "U"}).stdout.strip()


class Differences(unittest.TestCase):
    PAGE = "| `CONFIG_A` | - | y | why |\n| `CONFIG_V` | \"\" | \"-steer*\" | why |\n"
    DEBIAN = 'CONFIG_V=""\nCONFIG_B=y\nCONFIG_CC_VERSION_TEXT="gcc 14"\n'
    OURS = 'CONFIG_V="-steer1"\nCONFIG_B=y\nCONFIG_A=y\nCONFIG_CC_VERSION_TEXT="gcc 12"\n# CONFIG_N is not set\n'

    def compare(self, debian: str, ours: str) -> list[str]:
        return deb.compare_with_page(deb.differences(debian, ours), self.PAGE)

    def test_as_documented(self) -> None:
        self.assertEqual(self.compare(self.DEBIAN, self.OURS), [])

    def test_one_more(self) -> None:
        self.assertEqual(self.compare(self.DEBIAN, self.OURS.replace("CONFIG_B=y", "CONFIG_B=m")),
                         ["CONFIG_B: Debian y, here m; the page has nothing"])

    def test_another_value(self) -> None:
        self.assertEqual(self.compare(self.DEBIAN, self.OURS.replace("-steer1", "-x")),
                         ['CONFIG_V: Debian "", here "-x"; the page has "" and "-steer*"'])

    def test_one_less(self) -> None:
        self.assertEqual(self.compare(self.DEBIAN, self.OURS.replace("CONFIG_A=y", "")),
                         ["CONFIG_A: on the page, but there is no difference"])

    def test_page_of_the_repository(self) -> None:
        said = deb.documented(deb.DIFFERENCES.read_text(encoding="utf-8"))
        self.assertEqual(said["CONFIG_CGROUP_STEER"], ("-", "y"))
        self.assertGreater(len(said), 5)


class Grub(unittest.TestCase):
    KERNELS = ("6.12.200+deb13-cloud-amd64", "6.12.1-steer0.1.9-cloud", "6.12.1-steer0.1.10-cloud", "6.12.1-steer0.1.2")

    def test_newest_of_ours_is_the_default(self) -> None:
        self.assertEqual(grub_default(self.KERNELS, "cloud"),
                         "gnulinux-advanced-U>gnulinux-6.12.1-steer0.1.10-cloud-advanced-U")
        self.assertEqual(grub_default(self.KERNELS), "gnulinux-advanced-U>gnulinux-6.12.1-steer0.1.2-advanced-U")

    def test_without_a_submenu(self) -> None:
        self.assertEqual(grub_default(self.KERNELS, "cloud", "GRUB_DISABLE_SUBMENU=y"),
                         "gnulinux-6.12.1-steer0.1.10-cloud-advanced-U")

    def test_without_a_kernel_of_ours(self) -> None:
        self.assertEqual(grub_default(self.KERNELS[:1], "cloud"), "0")

    def test_choice_of_the_owner_stays(self) -> None:
        self.assertEqual(grub_default(self.KERNELS, "cloud", "GRUB_DEFAULT=saved"), "saved")

    def test_file_is_the_owners(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            deb.build_latest("6.12.1-steer0.1.0", "cloud", "1", "amd64", Path(directory))
            image, = Path(directory).glob("linux-image-*.deb")
            capture(["dpkg-deb", "--control", image, f"{directory}/control"])
            self.assertEqual((Path(directory) / "control/conffiles").read_text(encoding="utf-8"),
                             "/etc/default/grub.d/50_linux-image-steer-cloud.cfg\n")


class Leftovers(unittest.TestCase):
    """What depmod wrote for a kernel that is removed goes; what is not depmod's stays, and so do other kernels."""

    def test_modules_of_removed_kernels(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            for release, name in (("1-steer0.1.0-cloud", "modules.dep"), ("1-steer0.1.1-cloud", "modules.dep"),
                                  ("1-steer0.1.2-cloud", "modules.dep"), ("1-steer0.1.2-cloud", "updates/own.ko"),
                                  ("1-steer0.1.0", "modules.dep"), ("1-cloud-amd64", "modules.dep")):
                path = root / "lib/modules" / release / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            (root / "boot").mkdir()
            (root / "boot/vmlinuz-1-steer0.1.1-cloud").touch()
            package, _ = deb.build_latest("1-steer0.1.1-cloud", "cloud", "1", "amd64", root / "out")
            capture(["dpkg-deb", "--control", package, root / "control"])
            script = (root / "control/postrm").read_text(encoding="utf-8")
            for place in ("/lib/modules/", "/boot/"):
                script = script.replace(place, f"{root}{place}")
            subprocess.run(["sh", "-c", script.replace("/usr/sbin/", "/nonexistent/")], check=True)
            left = sorted(str(path.relative_to(root / "lib/modules")) for path in (root / "lib/modules").rglob("*")
                          if path.is_file())
        self.assertEqual(left, ["1-cloud-amd64/modules.dep", "1-steer0.1.0/modules.dep",
                                "1-steer0.1.1-cloud/modules.dep",
                                "1-steer0.1.2-cloud/updates/own.ko"])


class OneBoot(unittest.TestCase):
    """The page's command for one boot of Debian's kernel names its entry, and nothing else."""
    MENU = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="gnulinux-advanced-U>gnulinux-6.12.1-steer0.1.0-cloud-advanced-U"
fi
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-U' {
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-U' {
\tmenuentry 'Linux 6.12.1-steer0.1.0-cloud' $menuentry_id_option 'gnulinux-6.12.1-steer0.1.0-cloud-advanced-U' {
\tmenuentry 'Linux 6.1.0-56-cloud-amd64' $menuentry_id_option 'gnulinux-6.1.0-56-cloud-amd64-advanced-U' {
\tmenuentry 'Linux 6.1.0-55-cloud-amd64' $menuentry_id_option 'gnulinux-6.1.0-55-cloud-amd64-advanced-U' {
"""

    def test_newest_of_debians(self) -> None:
        page = (context.ROOT / "packaging/README.md").read_text(encoding="utf-8")
        command = examples(page, "One boot of another kernel")[0][0][0]
        with tempfile.TemporaryDirectory() as directory:
            menu = Path(directory) / "grub.cfg"
            menu.write_text(self.MENU, encoding="utf-8")
            done = subprocess.run(["sh", "-ec", command.replace("/boot/grub/grub.cfg", str(menu)).replace(
                "grub-reboot", "printf %s")], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "gnulinux-advanced-U>gnulinux-6.1.0-56-cloud-amd64-advanced-U")


class SecureBoot(unittest.TestCase):
    """What the page says to do, with commands that only note that they were called."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        tools = self.root / "tools"
        tools.mkdir()
        for name in ("openssl", "sbsign", "mokutil"):
            (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >>"{self.root}/called"\n'
                                      f'[ ! -e "{self.root}/{name}-fails" ]\n')
            (tools / name).chmod(0o755)
        self.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
        page = (context.ROOT / "packaging/README.md").read_text(encoding="utf-8")
        self.commands = [command for block in examples(page, "Secure Boot") for command, _ in block]
        self.hook = self.root / "etc/kernel/postinst.d/sign-steer"
        self.hook.parent.mkdir(parents=True)
        (self.root / "boot").mkdir()

    def do(self, contained: str) -> None:
        for command in self.commands:
            if contained in command:
                subprocess.run(["sh", "-c", command.replace("/etc/", f"{self.root}/etc/").replace(
                    "/boot/", f"{self.root}/boot/")], env=self.environment, check=True)

    def signs(self, release: str) -> int:
        image = self.root / f"boot/vmlinuz-{release}"
        return subprocess.run(["sh", self.hook, release, image], env=self.environment, check=False).returncode

    def called(self) -> str:
        path = self.root / "called"
        return path.read_text() if path.exists() else ""

    def test_each_installed_kernel_is_signed_and_no_other(self) -> None:
        for release in ("6.12.1-steer0.1.0-cloud", "6.12.1-steer0.1.1", "6.12.118+deb13-amd64"):
            (self.root / f"boot/vmlinuz-{release}").touch()
        self.do("postinst.d/sign-steer <<")
        self.do("chmod 755")
        self.do("for image")
        signed = [line.split()[-1].rpartition("/")[2] for line in self.called().splitlines() if "sbsign" in line]
        self.assertEqual(["vmlinuz-6.12.1-steer0.1.0-cloud", "vmlinuz-6.12.1-steer0.1.1"], sorted(signed))

    def test_hook_leaves_debians_kernels_alone(self) -> None:
        self.do("postinst.d/sign-steer <<")
        self.assertEqual(0, self.signs("6.12.118+deb13-amd64"))
        self.assertEqual("", self.called())

    def test_installation_fails_when_signing_does(self) -> None:
        self.do("postinst.d/sign-steer <<")
        (self.root / "sbsign-fails").touch()
        self.assertNotEqual(0, self.signs("6.12.1-steer0.1.0"))

    def test_key_is_imported_after_it_was_made_and_used(self) -> None:
        order = [next(i for i, command in enumerate(self.commands) if part in command)
                 for part in ("openssl req", "for image", "mokutil --import", "systemctl reboot")]
        self.assertEqual(sorted(order), order)


class Disks(unittest.TestCase):
    """Of machines that boot by BIOS or UEFI."""

    def test_loader(self) -> None:
        self.assertIn("grub-pc", debian_disk.PLAIN.all_packages())
        packages = Kind("name", ("dkms",), uefi=True).all_packages()
        self.assertIn("dkms", packages)
        self.assertIn("shim-signed", packages)
        self.assertNotIn("grub-pc", packages)

    def test_file_system_is_behind_what_uefi_reads(self) -> None:
        self.assertEqual(debian_disk.FIRST_SECTOR, debian_disk.PLAIN.root)
        self.assertEqual(debian_disk.FIRST_SECTOR + debian_disk.EFI_SECTORS, Kind("name", uefi=True).root)

    def test_firmware(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            plain = Machine(Path(name, "disk"), Path(name)).command([])
            secure = Machine(Path(name, "disk"), Path(name), variables=Path(name, "vars")).command([])
        self.assertFalse([word for word in plain if "pflash" in word])
        self.assertIn(f"if=pflash,unit=1,format=raw,file={name}/vars", secure)
        self.assertIn("q35,smm=on", secure)


class Latest(unittest.TestCase):
    """The packages that bring the next build."""

    def test_depend_on_one_build(self) -> None:
        image, headers = deb.latest("6.12.1-steer0.1.0-cloud", "cloud", "6.12.1-1+~steer0.1.0", "amd64")
        self.assertEqual(image["Package"], "linux-image-steer-cloud")
        self.assertEqual(image["Depends"], "linux-image-6.12.1-steer0.1.0-cloud (= 6.12.1-1+~steer0.1.0)")
        self.assertEqual(headers["Package"], "linux-headers-steer-cloud")
        with tempfile.TemporaryDirectory() as directory:
            package = debian_package.build(None, image, Path(directory))
            self.assertEqual(capture(["dpkg-deb", "-f", package, "Version"]).strip(), image["Version"])
            self.assertIn("\n Depends on the latest kernel", capture(["dpkg-deb", "-f", package, "Description"]))

    def test_those_of_a_flavour(self) -> None:
        version = release_version.of_source()
        with tempfile.TemporaryDirectory() as directory:
            names = [f"linux-image-6.12.1-steer{version}{suffix}_6.12.1-1+~steer{version}_amd64.deb"
                     for suffix in ("", "-cloud", "-dbg", "-cloud-dbg")]
            names += [f"linux-image-steer{suffix}_6.12.1-1+~steer{version}_amd64.deb" for suffix in ("", "-cloud")]
            for name in names:
                (Path(directory) / name).touch()
            for flavour, wanted in (("", (0, 2, 4)), ("cloud", (1, 3, 5))):
                self.assertEqual([path.name for path in deb.packages_in(Path(directory), flavour)],
                                 sorted(names[number] for number in wanted))


if __name__ == "__main__":
    unittest.main()
