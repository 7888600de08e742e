"""One run of the guest: QEMU without hardware help, in which time passes by instructions.

With `-icount` the guest's clock advances a nanosecond for each instruction, and jumps ahead while it sleeps. The host's
speed and load then change nothing but how long one waits, and the guest's processor is never too slow for the link.
"""

import json
import os
import re
import subprocess
import tempfile

MACHINE = [
    "qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", "qemu64,+rdrand", "-smp", "1", "-m", "512",
    "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
]
KERNEL_LINE = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on tsc=reliable"


RUNNING = set()


class Failed(Exception):
    """A run that yielded nothing, with the end of what the guest said."""


def boot(image, initrd, seconds_max):
    """What the guest wrote on its console."""
    with tempfile.NamedTemporaryFile(prefix="kernel-witness-") as disk:
        disk.write(initrd)
        disk.flush()
        command = [*MACHINE, "-kernel", str(image), "-initrd", disk.name, "-append", KERNEL_LINE]
        # A session of its own: Ctrl-C reaches only this program, which ends the guest by its handle.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(process)
        try:
            return process.communicate(timeout=seconds_max)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise Failed(f"the guest was not done after {seconds_max} s") from None
        finally:
            process.kill()
            process.wait()
            RUNNING.discard(process)


def end_all():
    """Ends the guests that other threads wait for."""
    for process in list(RUNNING):
        process.kill()


def said(console):
    """The lines for this program: word to rest."""
    return dict(re.findall(r"^@(\w+) ?(.*?)\r?$", console, re.M))


def busy_share(before, after):
    """Share of the processor's time that was not idle, from two first lines of /proc/stat."""
    spent = [int(b) - int(a) for a, b in zip(before.split()[1:], after.split()[1:])]
    return 1 - spent[3] / sum(spent)


def run(image, initrd, seconds_max, log):
    console = boot(image, initrd, seconds_max)
    log.write_text(console)
    words = said(console)
    if not {"done", "kernel", "result"} <= words.keys():
        raise Failed("the guest did not finish. The end of its console:\n" + "\n".join(console.splitlines()[-20:]))
    result = json.loads(words["result"])
    result["busy"] = busy_share(words["before"], words["after"])
    result["kernel"] = words["kernel"]
    result["words"] = words
    return result


def version():
    line = subprocess.run([MACHINE[0], "--version"], capture_output=True, text=True, check=True).stdout
    return line.splitlines()[0].split("version ")[1].split(" ")[0] + (" on " + os.uname().machine)
