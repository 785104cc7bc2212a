/* Load for scripts/bench-egress.sh: a server and four clients. Each prints one number. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 20];
static struct sockaddr_in server = {.sin_family = AF_INET};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* "D": a gigabyte. "E": one byte for each line. */
static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument, one = 1;
    char line[2];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (recv(fd, line, 2, MSG_WAITALL) == 2) {
        if (line[0] == 'E') {
            send(fd, "x", 1, MSG_NOSIGNAL);
        } else {
            for (int i = 0; i < 1024; i++)
                for (size_t sent = 0; sent < sizeof buffer;) {
                    ssize_t n = send(fd, buffer + sent, sizeof buffer - sent, MSG_NOSIGNAL);
                    if (n <= 0) goto end;
                    sent += n;
                }
            break;
        }
    }
end:
    close(fd);
    return NULL;
}

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&server, sizeof server)) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void echo(int fd) {
    char byte;
    if (send(fd, "E\n", 2, 0) != 2 || recv(fd, &byte, 1, 0) != 1) {
        perror("echo");
        exit(1);
    }
}

static void *many(void *argument) {
    for (int i = 0; i < (int)(intptr_t)argument; i++) {
        int fd = dial();
        echo(fd);
        close(fd);
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    server.sin_port = htons(atoi(argv[2]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!strcmp(argv[1], "server")) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&server, sizeof server) || listen(fd, 1024)) return 1;
        for (;;) {
            pthread_t thread;
            int c = accept(fd, NULL, NULL);
            if (c >= 0 && !pthread_create(&thread, NULL, serve, (void *)(intptr_t)c)) pthread_detach(thread);
        }
    }
    double start = now();
    if (!strcmp(argv[1], "stream")) { /* MB/s */
        int fd = dial();
        uint64_t total = 0;
        ssize_t n;
        if (send(fd, "D\n", 2, 0) != 2) return 1;
        while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) total += n;
        if (total != 1u << 30) return 1;
        printf("%.0f\n", total / 1e6 / (now() - start));
    } else if (!strcmp(argv[1], "short")) { /* connections a second */
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, many, (void *)1000);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        printf("%.0f\n", 4000 / (now() - start));
    } else if (!strcmp(argv[1], "first")) { /* microseconds from connect to the first byte, median */
        static double times[2000];
        for (int i = 0; i < 2000; i++) {
            double before = now();
            int fd = dial();
            echo(fd);
            times[i] = now() - before;
            close(fd);
        }
        qsort(times, 2000, sizeof *times, compare);
        printf("%.0f\n", times[1000] * 1e6);
    } else { /* hold: 200 connections, all used, until killed */
        for (int i = 0; i < 200; i++) echo(dial());
        printf("held\n");
        fflush(stdout);
        pause();
    }
    return 0;
}
