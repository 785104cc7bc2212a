def main():
    s = ""
    for i in range(1000000):
        s += "ab" + str(i % 10)
    print(len(s))
main()
