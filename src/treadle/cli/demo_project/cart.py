"""A shopping cart that gives a discount on large orders."""

from __future__ import annotations

from dataclasses import dataclass, field

DISCOUNT_FROM_CENTS = 100_00
DISCOUNT_PERCENT = 10


@dataclass
class Cart:
    lines: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, name: str, price_cents: int, quantity: int = 1) -> None:
        self.lines.append((name, price_cents, quantity))

    def total_cents(self) -> int:
        """The sum, less the discount for orders of at least 100.00."""
        total = sum(price for _, price, _ in self.lines)
        if total > DISCOUNT_FROM_CENTS:
            total -= total * DISCOUNT_PERCENT // 100
        return total
