def main():
    state = 42
    words = []
    for i in range(300000):
        state = (state * 1103515245 + 12345) % 2147483648
        words.append("w" + str(state // 65536 % 5000))
    counts = {}
    for w in words:
        if w in counts: counts[w] = counts[w] + 1
        else: counts[w] = 1
    best = 0
    for w in counts:
        if counts[w] > best: best = counts[w]
    print(len(counts), best)
main()
