def main():
    n = 1000000
    flags = []
    for i in range(n + 1): flags.append(True)
    i = 2
    while i * i <= n:
        if flags[i]:
            for j in range(i * i, n + 1, i): flags[j] = False
        i = i + 1
    found = 0
    for i in range(2, n + 1):
        if flags[i]: found = found + 1
    print(found)
main()
