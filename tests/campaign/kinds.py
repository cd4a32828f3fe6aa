"""All kinds of faults, with what is done, the bound and how many of a whole campaign are of that kind."""

from __future__ import annotations

from tests.campaign import faults_answer as answer
from tests.campaign import faults_disk as disk
from tests.campaign import faults_launcher as whole
from tests.campaign import faults_load as load
from tests.campaign import faults_manners as manners
from tests.campaign import faults_real as real
from tests.campaign.trial import IN_TIME, KEPT, NO_ORPHAN, WORKS, Kind

QUIET = (NO_ORPHAN, IN_TIME, KEPT, WORKS)  # nothing is to be named: it is met in silence

KINDS = (
    Kind(
        "dies-at-load",
        "writes a captured log and ends while loading, at each start",
        20,
        57,
        load.LOG_WAYS,
        load.dies_at_load,
    ),
    Kind(
        "hangs-at-load",
        "stopped, deaf or loading for ever, once or always",
        20,
        12,
        load.HANG_WAYS,
        load.hangs_at_load,
    ),
    Kind(
        "another-engine",
        "cannot run here, while another engine is on this machine: it is well, fails too, or breaks in its first answer",
        20,
        15,
        load.OTHER_WAYS,
        load.another_engine,
    ),
    Kind(
        "dies-at-request",
        "exit status, SIGSEGV, SIGABRT, SIGKILL at the first, second or third request, once or three times",
        20,
        24,
        answer.DEATH_WAYS,
        answer.dies_at_request,
    ),
    Kind(
        "hangs-in-answer",
        "SIGSTOP or deafness in an answer; the person waits or presses Stop",
        20,
        12,
        answer.STOP_WAYS,
        answer.hangs_in_answer,
    ),
    Kind(
        "message-in-line",
        "killed in an answer while another message waits",
        15,
        9,
        answer.LINE_WAYS,
        answer.message_in_line,
    ),
    Kind(
        "stream-cut",
        "reset, ended early, cut in a chunk, an error or a refusal in an answer",
        10,
        12,
        answer.CUT_WAYS,
        answer.stream_is_cut,
    ),
    Kind(
        "stream-wrong",
        "a web page, rubbish, wrong JSON or nothing instead of a chat stream",
        10,
        9,
        answer.WRONG_WAYS,
        answer.stream_is_wrong,
    ),
    Kind(
        "floods-log",
        "up to 60 MB of log before it is ready, and on while it answers",
        20,
        8,
        manners.FLOOD_WAYS,
        manners.floods,
    ),
    Kind(
        "ignores-sigterm",
        "deaf to SIGTERM at a restart and at the end, idle and in an answer",
        15,
        8,
        manners.END_WAYS,
        manners.ignores_sigterm,
        QUIET,
    ),
    Kind(
        "closes-slowly",
        "holds its memory for a while after SIGTERM",
        15,
        12,
        manners.SLOW_WAYS,
        manners.closes_slowly,
        QUIET,
    ),
    Kind(
        "forks-children",
        "has children that ignore signals, some hold its port; crashes, is killed, restarted, ended",
        15,
        8,
        manners.FORK_WAYS,
        manners.forks,
    ),
    Kind(
        "port-in-the-gap",
        "somebody takes the port between choice and bind, asked for by name or not",
        20,
        12,
        manners.PORT_WAYS,
        manners.port_taken_in_the_gap,
    ),
    Kind("port-held", "somebody has the port already", 15, 4, manners.HELD_WAYS, manners.port_held),
    Kind(
        "somebody-else",
        "answers under another name and without a key",
        20,
        4,
        manners.ELSE_WAYS,
        manners.somebody_else,
    ),
    Kind(
        "real-server-struck",
        "SIGKILL, SIGSEGV, SIGABRT, SIGSTOP, SIGTERM to llama-server as it loads, is proven, rests, reads or answers",
        30,
        25,
        real.WAYS["built"],
        real.struck,
    ),
    Kind(
        "embedded-struck",
        "the same to the embedded engine",
        30,
        25,
        real.WAYS["embedded"],
        real.struck,
    ),
    Kind(
        "launcher-killed",
        "SIGKILL to the launcher at any point of its life",
        60,
        14,
        whole.KILL_WAYS,
        whole.ended,
    ),
    Kind(
        "launcher-ended",
        "SIGINT, SIGTERM, SIGHUP to the launcher, once and twice, at any point of its life",
        60,
        36,
        whole.SIGNAL_WAYS,
        whole.ended,
    ),
    Kind(
        "two-launchers",
        "started twice in one home, beside one another, right after a crash, a command beside the page",
        60,
        4,
        whole.TWO_WAYS,
        whole.two_at_once,
    ),
    Kind(
        "log-disk-full",
        "the disk is full for the engine's log",
        60,
        4,
        disk.LOG_WAYS,
        disk.log_cannot_be_written,
    ),
    Kind("store-disk-full", "the disk is full for a conversation", 60, 4, disk.FULL_WAYS, disk.store_is_full),
    Kind(
        "folder-read-only",
        "a folder cannot be written for a moment: conversations, or the engines' keys",
        60,
        6,
        disk.ONLY_WAYS,
        disk.folder_read_only,
    ),
)
FAULTS = sum(kind.share for kind in KINDS)  # of a whole campaign
