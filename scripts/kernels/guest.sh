# Runs in the guest, as its first process, and prints one line for each check: `cell|caller|check|pass or fail|why`.
# `checks=` on the kernel's command line says which: full, or no-landlock for a kernel that was booted without it.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
chmod 1777 /tmp
printf 'root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n' > /etc/passwd
printf 'root:x:0:\nuser:x:1000:\n' > /etc/group
abi=$(sed -n 's/.*\babi=\([0-9]*\).*/\1/p' /proc/cmdline)
checks=$(sed -n 's/.*\bchecks=\([a-z-]*\).*/\1/p' /proc/cmdline)

# A group that belongs to the user, as systemd lends one: its processes stand in a leaf of their own.
echo '+memory +pids' > /sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/lent
chown 1000:1000 /sys/fs/cgroup/lent /sys/fs/cgroup/lent/cgroup.procs /sys/fs/cgroup/lent/cgroup.subtree_control
echo '+memory +pids' > /sys/fs/cgroup/lent/cgroup.subtree_control
mkdir /sys/fs/cgroup/lent/leaf
chown 1000:1000 /sys/fs/cgroup/lent/leaf /sys/fs/cgroup/lent/leaf/cgroup.procs

# A group of the user's in which the launcher is alone, as systemd lends one to a service; new for each command.
unit=/sys/fs/cgroup/unit
new_unit() {
  rmdir $unit/thirdwall-launcher $unit 2>/dev/null
  mkdir -p $unit
  chown 1000:1000 $unit $unit/cgroup.procs $unit/cgroup.subtree_control
}

# Runs a command line as the caller of the cell; `out` and `code` are what came of it.
as() {
  rm -f /tmp/out /tmp/report
  case $caller in
    root) timeout 40 sh -c "$1" > /tmp/out 2>&1 ;;
    user) timeout 40 su user -c "$1" > /tmp/out 2>&1 ;;
    user+cgroup)
      timeout 40 sh -c "echo 0 > /sys/fs/cgroup/lent/leaf/cgroup.procs; exec su user -c '$1'" > /tmp/out 2>&1
      ;;
    user+unit)
      new_unit
      timeout 40 sh -c "echo 0 > $unit/cgroup.procs; exec su user -c 'exec $1'" > /tmp/out 2>&1
      ;;
  esac
  code=$?
  out=$(tr '\n' ' ' < /tmp/out)
  [ -f /tmp/report ] && out="$out $(cat /tmp/report)"
}

# check NAME CODE WORD…: the code that is wanted, and words that have to be there (one after `!` must not be).
check() {
  name=$1 wanted=$2 why=
  shift 2
  [ "$code" = "$wanted" ] || why="code $code instead of $wanted"
  for word in "$@"; do
    case $word in
      !*) case $out in *"${word#!}"*) why="$why has ${word#!};" ;; esac ;;
      *) case $out in *"$word"*) ;; *) why="$why lacks $word;" ;; esac ;;
    esac
  done
  if [ -z "$why" ]; then echo "cell|$caller|$name|pass|"; else echo "cell|$caller|$name|fail|$why: $out"; fi
}

# A program whose program's program takes all the memory that there is for it; each one tells what became of the next.
cat > /tmp/nest.syn << 'END'
require sandbox_run
let innermost be "let x be [\"0123456789abcdef\"]\nwhile true\n    set x to x + x\n"
let inner be "require sandbox_run\nlet r be run_program(args()[0], {\"ceiling\": \"stdout\"})\nprint(\"innermost\", r[\"ok\"], r[\"errors\"])\n"
let r be run_program(replace(inner, "args()[0]", json_encode(innermost)), {"ceiling": "stdout,sandbox_run"})
print("inner", r["ok"], r["output"])
END

jail() { as "thirdwall exec --policy static --report /tmp/report $1"; }

layers_in_force() {
  for layer in namespaces root filter network; do
    printf '%s\n' "\"layer\":\"$layer\",\"standing\":\"in_force\""
  done
}

full() {
  as 'thirdwall doctor --json'
  check 'doctor: a full jail' 0 '"jail": "full"' "\"landlock_abi\": $abi"
  jail '-- /bin/probe say'
  IFS='
'
  check 'exec: all layers in force' 7 '"exit":7' '"output":["inside"]' "\"how\":\"ABI $abi" $(layers_in_force)
  unset IFS
  jail '-- /bin/probe root'
  check 'Landlock: the root is closed' 13 '"exit":13'
  jail '-- /bin/probe socket'
  check 'filter: no socket, and an entry for it' 1 '"exit":1' '"target":"socket' '"layer":"filter"'
  case $caller in
    user) by=polling processes_by=rlimit ;;
    *) by='cgroup v2' processes_by=$by ;;
  esac
  jail '--memory 32M -- /bin/probe memory'
  check "memory: a verdict, by $by" 137 '"status":"memory"' "\"limit\":\"memory\",\"value\":33554432,\"means\":\"$by"
  as 'thirdwall run --memory 160M --wall 60s --cpu 60s --report /tmp/report /tmp/nest.syn'
  check "memory, three deep: told from level to level, by $by" 0 '"status":"ok"' 'inner true' 'innermost false' 'memory' "\"means\":\"$by"
  jail '--pids 8 -- /bin/probe processes'
  check "processes: a verdict, by $processes_by" 137 '"status":"processes"' "\"limit\":\"pids\",\"value\":8,\"means\":\"$processes_by"
  jail '--cpu 500ms --wall 60s -- /bin/probe spin'
  check "CPU time: a verdict, by $by" 124 '"status":"cpu_time"' "\"limit\":\"cpu\",\"value\":500,\"means\":\"$by"
  jail '--wall 500ms --cpu none -- /bin/probe spin'
  check 'wall clock: a verdict' 124 '"status":"wall_time"'
  left=$(find /sys/fs/cgroup -name 'thirdwall-[0-9]*' | wc -l)
  out="groups: $left" code=0
  check 'no group is left behind' 0 'groups: 0'
}

no_landlock() {
  jail '-- /bin/probe say'
  check 'no Landlock: refused by name, with a remedy' 125 landlock 'lsm=' '--allow-missing landlock' '!inside'
  jail '--allow-missing landlock -- /bin/probe say'
  check 'no Landlock: gone without, openly' 7 '"layer":"landlock","standing":"missing"' '"output":["inside"]'
}

case $checks in
  full)
    for caller in root user+cgroup user+unit user; do full; done
    echo 0 > /proc/sys/user/max_user_namespaces
    caller=user
    jail '-- /bin/probe say'
    check 'no user namespaces: refused by name, with a remedy' 125 namespaces 'user.max_user_namespaces' '!inside'
    as 'thirdwall doctor --json'
    check 'no user namespaces: doctor tells which setting' 1 '"layer": "namespaces"' 'user.max_user_namespaces is 0' '!"jail": "full"'
    ;;
  no-landlock) for caller in root user; do no_landlock; done ;;
esac
echo 'cells|end'
poweroff -f
