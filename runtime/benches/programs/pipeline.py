from functools import reduce
def main():
    xs = list(range(200000))
    total = 0
    for round in range(10):
        a = list(map(lambda x: x * 3, xs))
        b = list(filter(lambda x: x % 2 == 0, a))
        total = total + reduce(lambda a, x: a + x, b, 0)
    print(total)
main()
