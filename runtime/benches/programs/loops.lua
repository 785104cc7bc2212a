local total = 0
for i = 0, 1999 do for j = 0, 1999 do total = total + i * j % 7 end end
print(total)
