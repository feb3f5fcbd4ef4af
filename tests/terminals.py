"""Commands on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_a_terminal(folder, words, columns=100):
    """The output of a command on a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        list(map(str, words)), cwd=folder, start_new_session=True, stdin=slave, stdout=slave,
        stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 1 << 16):
            shown += part
    except OSError:  # no process writes to it any more
        pass
    os.close(master)
    assert process.wait() == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")
