#!/bin/busybox sh
# First process of the guest. Nothing can be pivoted away from the initramfs itself, which no installed system has as
# its root: everything moves into a tmpfs first.
/bin/busybox mkdir -p /new
/bin/busybox mount -t tmpfs -o mode=755 tmpfs /new
/bin/busybox mkdir -p /new/bin /new/dev /new/proc /new/sys /new/tmp /new/run /new/etc
/bin/busybox cp /bin/busybox /new/bin/
/bin/busybox cp /thirdwall /probe /guest.sh /new/bin/
exec /bin/busybox switch_root /new /bin/busybox sh /bin/guest.sh
