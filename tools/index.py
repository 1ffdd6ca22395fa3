"""Write the catalogue's index, from which `unlazy list` answers: `make index`."""

from unlazy.lab import catalogue

if __name__ == "__main__":
    print(f"wrote {catalogue.write().name}, {len(catalogue.entries())} studies")
