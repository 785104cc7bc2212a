/*
 * What starting a jail costs at least on this kernel, and how other commands stand to it, in one run, turn about.
 *
 *   bench starts ROUNDS CONTENDERS     medians, p90, p99 and ratios
 *   bench rate WORKERS SECONDS CONTENDERS   jails per second
 *   bench drift CONTENDERS LINE COUNT  p99 around the 100th and the COUNTth start of one contender
 *
 * CONTENDERS is a file with lines `name<TAB>command and its words`; the first line names the no-op for the floor:
 * `noop<TAB>/path`. Contenders of this program itself:
 *   bare       fork, exec, wait
 *   floor      clone with user, pid, mount, network, ipc and uts namespaces, id maps, a minimal read-only root with
 *              /proc, pivot, exec, wait
 *   prepared   the same inside one empty network namespace that was made beforehand
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)
#define MOST 16

static char *noop;
static char base[64];
static int home_net, empty_net = -1;

enum kind { BARE, FLOOR, PREPARED, COMMAND };
static struct contender {
	const char *name;
	enum kind kind;
	char *argv[64];
} contenders[MOST] = {{"bare", BARE, {0}}, {"floor", FLOOR, {0}}, {"prepared", PREPARED, {0}}};
static int count = 3;
/* Processor time of the last start and all it waited for, in microseconds. */
static double used;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void put(pid_t pid, const char *name, const char *text)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	int file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, text, strlen(text)) < 0)
		die(path);
	close(file);
}

/* Fewest calls: a tmpfs, the program bound into it, /proc, pivot, sealed. */
static void root(void)
{
	char at[128];
	if (mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755"))
		die("tmpfs");
	snprintf(at, sizeof at, "%s/proc", base);
	if (mkdir(at, 0755) || mount("proc", at, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		die("proc");
	snprintf(at, sizeof at, "%s/noop", base);
	int file = open(at, O_CREAT | O_WRONLY, 0755);
	if (file < 0 || mount(noop, at, NULL, MS_BIND, NULL))
		die("bind");
	close(file);
	if (chdir(base) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
		die("pivot");
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL))
		die("seal");
}

static pid_t jail(uint64_t spaces)
{
	int gate[2];
	char go, map[64];
	if (pipe2(gate, O_CLOEXEC))
		die("pipe");
	struct clone_args args = {.flags = spaces, .exit_signal = SIGCHLD};
	pid_t pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		die("clone3");
	if (pid == 0) {
		close(gate[1]);
		if (read(gate[0], &go, 1) != 1)
			_exit(97);
		root();
		char *argv[] = {"/noop", NULL}, *env[] = {NULL};
		execve("/noop", argv, env);
		_exit(98);
	}
	close(gate[0]);
	put(pid, "setgroups", "deny");
	snprintf(map, sizeof map, "1000 %d 1", geteuid());
	put(pid, "uid_map", map);
	snprintf(map, sizeof map, "1000 %d 1", getegid());
	put(pid, "gid_map", map);
	if (write(gate[1], "g", 1) != 1)
		die("gate");
	close(gate[1]);
	return pid;
}

/* Microseconds from the call to the collected end; negative if it ended in another way than with 0. */
static double start(struct contender *one)
{
	int status;
	pid_t pid;
	double before = now();
	switch (one->kind) {
	case FLOOR:
		pid = jail(SPACES | CLONE_NEWNET);
		break;
	case PREPARED:
		if (setns(empty_net, CLONE_NEWNET))
			die("setns");
		pid = jail(SPACES);
		break;
	default:
		pid = fork();
		if (pid < 0)
			die("fork");
		if (pid == 0) {
			int null = open("/dev/null", O_RDWR);
			dup2(null, 0);
			dup2(null, 1);
			if (!getenv("BENCH_TELL"))
				dup2(null, 2);
			char *bare[] = {noop, NULL};
			execv(one->kind == BARE ? noop : one->argv[0], one->kind == BARE ? bare : one->argv);
			_exit(127);
		}
	}
	struct rusage usage;
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			die("wait");
	double took = now() - before;
	used = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	if (one->kind == PREPARED && setns(home_net, CLONE_NEWNET))
		die("setns home");
	if (status != 0)
		fprintf(stderr, "%s: status %x\n", one->name, status);
	return status == 0 ? took : -1;
}

static void load(const char *file)
{
	static char line[4096];
	FILE *list = fopen(file, "r");
	if (!list)
		die(file);
	while (fgets(line, sizeof line, list)) {
		line[strcspn(line, "\n")] = 0;
		char *tab = strchr(line, '\t');
		if (!tab)
			continue;
		*tab = 0;
		if (!strcmp(line, "noop")) {
			noop = strdup(tab + 1);
			continue;
		}
		if (count == MOST)
			die("too many contenders");
		struct contender *one = &contenders[count++];
		int words = 0;
		one->name = strdup(line);
		one->kind = COMMAND;
		for (char *word = strtok(strdup(tab + 1), " "); word && words < 63; word = strtok(NULL, " "))
			one->argv[words++] = word;
	}
	fclose(list);
	if (!noop)
		die("no noop");
}

static void prepare(void)
{
	snprintf(base, sizeof base, "/tmp/bench-root-%d", getpid());
	if (mkdir(base, 0700))
		die(base);
	home_net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	/* As an ordinary user there is none that could be entered. */
	if (unshare(CLONE_NEWNET))
		return;
	empty_net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (setns(home_net, CLONE_NEWNET))
		die("setns home");
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return a < b ? -1 : a > b;
}

static int starts(int rounds)
{
	double *took[MOST], *cpu[MOST], floor = 0;
	int bad[MOST] = {0};
	for (int i = 0; i < count; i++)
		took[i] = calloc(rounds, sizeof **took), cpu[i] = calloc(rounds, sizeof **cpu);
	for (int round = -3; round < rounds; round++)
		for (int i = 0; i < count; i++) {
			if (bad[i] || (bad[i] = contenders[i].kind == PREPARED && empty_net < 0))
				continue;
			double us = start(&contenders[i]);
			if (us < 0)
				bad[i] = 1;
			else if (round >= 0)
				took[i][round] = us, cpu[i][round] = used;
		}
	printf("%-22s %8s %8s %8s %8s %8s %8s   (us, %d rounds)\n", "start", "p10", "median", "p90", "p99", "x floor",
	       "cpu", rounds);
	for (int i = 0; i < count; i++) {
		double *sorted = took[i];
		qsort(sorted, rounds, sizeof *sorted, ascending);
		qsort(cpu[i], rounds, sizeof **cpu, ascending);
		if (contenders[i].kind == FLOOR)
			floor = sorted[rounds / 2];
	}
	for (int i = 0; i < count; i++) {
		if (bad[i])
			printf("%-22s not available\n", contenders[i].name);
		else
			printf("%-22s %8.0f %8.0f %8.0f %8.0f %8.2f %8.0f\n", contenders[i].name, took[i][rounds / 10],
			       took[i][rounds / 2], took[i][rounds * 9 / 10], took[i][rounds * 99 / 100],
			       took[i][rounds / 2] / floor, cpu[i][rounds / 2]);
	}
	return 0;
}

static double rate(struct contender *one, int workers, double seconds)
{
	int results[2];
	long total = 0, done;
	if (pipe(results))
		die("pipe");
	fflush(NULL);
	double begun = now();
	for (int worker = 0; worker < workers; worker++)
		if (fork() == 0) {
			snprintf(base, sizeof base, "/tmp/bench-root-%d", getpid());
			mkdir(base, 0700);
			for (done = 0; now() - begun < seconds * 1e6; done++)
				if (start(one) < 0)
					_exit(1);
			if (write(results[1], &done, sizeof done) != sizeof done)
				_exit(1);
			rmdir(base);
			_exit(0);
		}
	close(results[1]);
	for (int worker = 0; worker < workers; worker++)
		if (read(results[0], &done, sizeof done) == sizeof done)
			total += done;
	double took = (now() - begun) / 1e6;
	while (wait(NULL) > 0)
		;
	close(results[0]);
	return total / took;
}

static int rates(int workers, double seconds)
{
	double floor = 0;
	printf("%-22s %10s %8s   (%d workers, %.0f s each)\n", "rate", "jails/s", "x floor", workers, seconds);
	for (int i = 0; i < count; i++) {
		if (contenders[i].kind == PREPARED && empty_net < 0)
			continue;
		double perhaps = rate(&contenders[i], workers, seconds);
		if (contenders[i].kind == FLOOR)
			floor = perhaps;
		printf("%-22s %10.0f %8.2f\n", contenders[i].name, perhaps, floor > 0 ? perhaps / floor : 0);
		fflush(stdout);
	}
	return 0;
}

static void told(double *took, int from, int to)
{
	int size = to - from;
	double *sorted = calloc(size, sizeof *sorted);
	memcpy(sorted, took + from, size * sizeof *sorted);
	qsort(sorted, size, sizeof *sorted, ascending);
	printf("%6d..%-14d %10.0f %10.0f %10.0f\n", from, to, sorted[size / 2], sorted[size * 9 / 10],
	       sorted[size * 99 / 100]);
}

static int drift(const char *name, int jails)
{
	struct contender *one = NULL;
	for (int i = 0; i < count; i++)
		if (!strcmp(contenders[i].name, name))
			one = &contenders[i];
	if (!one || jails < 400)
		die("drift: no such contender, or fewer than 400 jails");
	double *took = calloc(jails, sizeof *took);
	for (int i = 0; i < jails; i++)
		if ((took[i] = start(one)) < 0)
			return 1;
	printf("%-22s %10s %10s %10s   (us, %s)\n", "jails in a row", "median", "p90", "p99", name);
	told(took, 0, 200);
	told(took, jails / 2 - 100, jails / 2 + 100);
	told(took, jails - 200, jails);
	return 0;
}

int main(int argc, char **argv)
{
	int code = 2;
	prepare();
	if (argc == 4 && !strcmp(argv[1], "starts")) {
		load(argv[3]);
		code = starts(atoi(argv[2]));
	} else if (argc == 5 && !strcmp(argv[1], "rate")) {
		load(argv[4]);
		code = rates(atoi(argv[2]), atof(argv[3]));
	} else if (argc == 5 && !strcmp(argv[1], "drift")) {
		load(argv[2]);
		code = drift(argv[3], atoi(argv[4]));
	} else
		fprintf(stderr, "usage: see the head of %s\n", __FILE__);
	rmdir(base);
	return code;
}
