"""What loss-notice means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=100,
    severity=Severity.HIGH,
    sentence="a holder that loses its lock is notified in time",
    kinds={
        "lost-without-notice": Kind(
            name="Lost without notice",
            mechanism="notice",
            lost_row="a release",
            means=("a client lost its lock and was never notified, although it was reachable"),
            remedy=(
                "Notify the holder when its lease expires, and let its own timer assume the"
                " loss if there is no response."
            ),
        ),
        "silent-reacquire": Kind(
            name="Silent reacquire",
            mechanism="notice",
            lost_row="an acquire of the same owner, or a notice",
            means=(
                "a client lost its lock to another client and was never notified: its later"
                " renewal or check was answered as if it had held the lock all along"
            ),
            remedy=(
                "Renew only what is still held: compare the owner or token in the same"
                " step, and answer that the hold is over if the lease has expired or another"
                " client was granted the lock since. A client must not acquire inside a"
                " renewal without saying so."
            ),
        ),
        "wrong-reason": Kind(
            name="Wrong reason",
            mechanism="notice",
            lost_row="a notice",
            means="a loss notification carried a reason that cannot have been the cause",
            remedy=(
                "Store the reason in the step that ends the hold, and report that reason,"
                " however late the holder asks."
            ),
        ),
        "late-notice": Kind(
            name="Late notice",
            mechanism="notice",
            means=("a client was notified of the loss of its lock later than the system promises"),
            remedy="Query the state of every hold as soon as a connection is back.",
        ),
        "write-after-notice": Kind(
            name="Write after notice",
            mechanism="notice",
            lost_row="a renewal, or an entry of the same owner",
            means=("a client continued to write after it was notified that its lock was lost"),
            remedy="Stop the work, not only the renewals, when the loss is reported.",
        ),
    },
)
