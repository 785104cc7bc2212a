def main():
    total = 0
    for i in range(2000):
        for j in range(2000):
            total = total + i * j % 7
    print(total)
main()
