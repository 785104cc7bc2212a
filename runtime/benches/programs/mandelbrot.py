def mandelbrot(w, h, limit):
    inside = 0
    for y in range(h):
        for x in range(w):
            cr = 3.0 * x / w - 2.0
            ci = 2.0 * y / h - 1.0
            zr = 0.0
            zi = 0.0
            n = 0
            while n < limit and zr * zr + zi * zi <= 4.0:
                t = zr * zr - zi * zi + cr
                zi = 2.0 * zr * zi + ci
                zr = t
                n = n + 1
            if n == limit: inside = inside + 1
    return inside
print(mandelbrot(200, 200, 100))
