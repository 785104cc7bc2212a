def main():
    state = 42
    xs = []
    for i in range(500000):
        state = (state * 1103515245 + 12345) % 2147483648
        xs.append(state)
    ys = sorted(xs)
    print(ys[0], ys[499999], ys[250000])
main()
