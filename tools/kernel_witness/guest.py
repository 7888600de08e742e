"""The guest: a kernel from its package, and a file system with the few programs that it needs."""

import lzma
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
# The first that apt knows. The packages of these names follow the latest build.
KERNELS = ["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"]
# Where Debian's newest kernel for its stable release is, and the package that depends on it.
NEWEST, NEWEST_NAME = "trixie-backports", "linux-image-amd64"
ARCHIVE, KEYRING = "http://deb.debian.org/debian", "/usr/share/keyrings/debian-archive-keyring.gpg"
MODULES = ["veth", "sch_htb", "sch_netem", "sch_codel", "sch_fq_codel", "sch_pie", "sch_cake"]
TOOLS = ["ip", "tc", "ethtool"]


class Missing(Exception):
    """Something is not there; the text says what and what to do."""


def tool(name):
    path = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin")
    if path is None:
        raise Missing(f"'{name}' is not installed")
    return pathlib.Path(path)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def package():
    """The package with the kernel itself, behind the name that follows the latest."""
    for name in KERNELS:
        found = re.findall(r"Depends: (linux-image-\d\S+)", subprocess.run(
            ["apt-cache", "depends", "--important", name], capture_output=True, text=True).stdout)
        if found:
            return found[0]
    raise Missing(f"apt knows none of {', '.join(KERNELS)}. Remedy: apt-get update, or name one with --kernel")


def unpacked(name, work):
    """The folder with the files of the kernel package, which is downloaded once."""
    folder = work / name
    if folder.exists():
        return folder
    work.mkdir(parents=True, exist_ok=True)
    print(f"downloading {name}", flush=True)
    done = subprocess.run(["apt-get", "download", name], cwd=work, capture_output=True, text=True)
    archives = sorted(work.glob(f"{name}_*.deb"))
    if done.returncode != 0 or not archives:
        raise Missing(f"apt could not download {name}: {done.stderr.strip()}")
    partial = work / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(["dpkg", "-x", archives[0], partial], check=True)
    archives[0].unlink()
    return partial.rename(folder)


class Apt:
    """Debian's packages of one suite, apart from what apt knows of this machine."""

    def __init__(self, suite, work):
        self.folder = (work / f"apt-{suite}").resolve()
        (self.folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (self.folder / "sources").write_text(f"deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n")
        done = self.run("apt-get", "update")
        if done.returncode != 0:
            raise Missing(f"apt could not read {suite}: {done.stderr.strip()}")

    def run(self, command, *arguments):
        options = {
            "Dir::Etc::sourcelist": self.folder / "sources", "Dir::Etc::sourceparts": "-", "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": "/dev/null", "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
        }
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return subprocess.run([command, *given, *arguments], cwd=self.folder, capture_output=True, text=True)

    def needs(self, name):
        return re.findall(r"Depends: (linux-\S+)", self.run("apt-cache", "depends", "--important", name).stdout)

    def unpack(self, name, into):
        done = self.run("apt-get", "download", name)
        archives = sorted(self.folder.glob(f"{name}_*.deb"))
        if done.returncode != 0 or not archives:
            raise Missing(f"apt could not download {name}: {done.stderr.strip()}")
        subprocess.run(["dpkg", "-x", archives[0], into], check=True)
        archives[0].unlink()


def newest(work):
    """The folder with the files of Debian's newest kernel, which is downloaded once; since Linux 7.3 it is in several packages."""
    known = sorted(work.glob("newest-*[0-9a-z]"))
    if known:
        return known[-1]
    work.mkdir(parents=True, exist_ok=True)
    apt = Apt(NEWEST, work)
    names = [name for name in apt.needs(NEWEST_NAME) if re.match(r"linux-image-\d", name)]
    if not names:
        raise Missing(f"{NEWEST} has no {NEWEST_NAME} that depends on a kernel")
    print(f"downloading {names[0]}", flush=True)
    partial = work / "partial-newest"
    shutil.rmtree(partial, ignore_errors=True)
    for name in [names[0], *(n for n in apt.needs(names[0]) if re.match(r"linux-(binary|modules|base)-\d", n))]:
        apt.unpack(name, partial)
    return partial.rename(work / f"newest-{names[0].removeprefix('linux-image-')}")


def image(kernel):
    """The kernel itself."""
    return next(kernel.glob("**/vmlinuz*"))


def built_module(kernel, name, work):
    """The bytes of a module of network queues that Debian leaves out of this kernel, built from Debian's source for it in a
    Debian of its own. Needs root."""
    release = kernel.name.removeprefix("newest-")
    built = work / f"{name}-{release}.ko"
    if built.exists():
        return built.read_bytes()
    if os.geteuid() != 0:
        raise Missing(f"Debian's kernel has no {name}, and who is not root cannot build it")
    series = re.match(r"\d+\.\d+", release)[0]
    root = (work / "build").resolve()
    sources = [f"deb {ARCHIVE} {suite} main" for suite in [NEWEST.removesuffix("-backports"), NEWEST]]
    packages = f"gcc,make,xz-utils,linux-headers-{release},linux-source-{series}"
    print(f"building {name} for {release} in a folder of its own", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    done = subprocess.run([tool("mmdebstrap"), "--variant=apt", f"--include={packages}", sources[0].split()[2], root, *sources],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"mmdebstrap could not make a Debian with {packages}: {done.stderr.strip()[-500:]}")
    script = f"""set -e
        mkdir /module
        cd /module
        tar xf /usr/src/linux-source-{series}.tar.xz --strip-components=3 --wildcards '*/net/sched/{name}.c'
        echo 'obj-m := {name}.o' >Makefile
        make -C /usr/src/linux-headers-{release} M=/module modules"""
    # What is mounted goes with the namespace.
    done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -c "$1"', root, script],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"{name} could not be built: {done.stderr.strip()[-500:]}")
    shutil.copy(root / "module" / f"{name}.ko", built)
    shutil.rmtree(root)
    return built.read_bytes()


def probe(work):
    """The traffic and the watch, compiled without need of any library in the guest."""
    compiler = shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        raise Missing("there is no C compiler. Remedy: apt-get install clang libc6-dev")
    program = work / "probe"
    subprocess.run([compiler, "-O2", "-Wall", "-static", "-o", program, HERE / "probe.c"], check=True)
    return program.read_bytes()


class Archive:
    """A file system in memory, in the format that the kernel unpacks (cpio, newc)."""

    def __init__(self):
        self.data = bytearray()
        self.folders = set()

    def entry(self, name, mode, content=b""):
        fields = [0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        for part in (head, content):
            self.data += part + b"\0" * (-len(part) % 4)

    def folder(self, name):
        if name in self.folders or name == "":
            return
        self.folder(name.rpartition("/")[0])
        self.folders.add(name)
        self.entry(name, 0o040755)

    def file(self, name, content):
        name = name.lstrip("/")
        self.folder(name.rpartition("/")[0])
        self.entry(name, 0o100755, content)

    def finished(self):
        self.entry("TRAILER!!!", 0)
        return bytes(self.data)


def module(kernel, name):
    """A module's bytes; nothing where it is part of the kernel."""
    for path in kernel.glob(f"**/lib/modules/*/kernel/**/{name}.ko*"):
        content = path.read_bytes()
        return lzma.decompress(content) if path.suffix == ".xz" else content
    if any(f"/{name}.ko" in listing.read_text() for listing in kernel.glob("**/lib/modules/*/modules.builtin")):
        return None
    raise Missing(f"the kernel has no module {name}")


def file_system(kernel, work, modules=(), programs=(), built=()):
    """Everything but the scenario; `programs` are further files to run, with their libraries, and `built` modules that this kernel
    does not come with."""
    archive = Archive()
    for folder in ["proc", "sys", "dev", "run", "bin", "modules"]:
        archive.folder(folder)
    archive.file("bin/busybox", tool("busybox").read_bytes())
    archive.file("tools/probe", probe(work))
    libraries = set()
    for path in [*map(tool, TOOLS), *programs]:
        archive.file(f"tools/{path.name}", path.read_bytes())
        libraries |= set(re.findall(r"(/\S+) \(0x", output("ldd", str(path))))
    for path in sorted(libraries):
        archive.file(path, pathlib.Path(path).read_bytes())
    for name in [*MODULES, *modules]:
        content = module(kernel, name)
        if content is not None:
            archive.file(f"modules/{name}.ko", content)
    for name in built:
        archive.file(f"modules/{name}.ko", built_module(kernel, name, work))
    archive.file("init", (HERE / "init.sh").read_bytes())
    return archive


def with_scenario(archive, script):
    whole = Archive()
    whole.data += archive.data
    whole.file("scenario", script.encode())
    return whole.finished()
