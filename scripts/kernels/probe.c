/* What the guest of the kernel matrix runs in the jail: one act each, told by the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *act = argc > 1 ? argv[1] : "";
	if (!strcmp(act, "say")) {
		puts("inside");
		return 7;
	}
	if (!strcmp(act, "memory")) {
		for (int mib = 0; mib < 512; mib++) {
			char *block = malloc(1 << 20);
			if (!block)
				return 9;
			memset(block, 1, 1 << 20);
		}
		return 0;
	}
	if (!strcmp(act, "processes")) {
		for (int made = 0; made < 256; made++) {
			pid_t pid = fork();
			if (pid < 0) {
				int refused = errno;
				/* Where the supervisor counts by looking, it needs a moment to look. */
				sleep(1);
				return refused == EAGAIN ? 9 : 8;
			}
			if (pid == 0) {
				pause();
				_exit(0);
			}
		}
		return 0;
	}
	if (!strcmp(act, "spin"))
		for (volatile unsigned long turns = 0;; turns++)
			;
	/* The root is granted by no Landlock rule. */
	if (!strcmp(act, "root"))
		return open("/", O_RDONLY | O_DIRECTORY) < 0 ? errno : 0;
	if (!strcmp(act, "socket"))
		return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
	return 64;
}
