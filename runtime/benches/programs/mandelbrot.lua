local function mandelbrot(w, h, limit)
  local inside = 0
  for y = 0, h - 1 do
    for x = 0, w - 1 do
      local cr, ci = 3.0 * x / w - 2.0, 2.0 * y / h - 1.0
      local zr, zi, n = 0.0, 0.0, 0
      while n < limit and zr * zr + zi * zi <= 4.0 do
        local t = zr * zr - zi * zi + cr
        zi = 2.0 * zr * zi + ci
        zr = t
        n = n + 1
      end
      if n == limit then inside = inside + 1 end
    end
  end
  return inside
end
print(mandelbrot(200, 200, 100))
