import json
def main():
    rows = []
    for i in range(60000):
        rows.append({"id": i, "name": f"user {i}", "tags": ["a", "b", "c"], "score": i / 7, "nested": {"x": i * 2, "y": None, "ok": True}})
    t = json.dumps(rows)
    back = json.loads(t)
    print(len(t) > 5000000, len(back), back[59999]["nested"]["x"])
main()
