from cart import Cart


def test_an_empty_cart_costs_nothing():
    assert Cart().total_cents() == 0


def test_quantity_counts():
    cart = Cart()
    cart.add("pencil", 1_50, quantity=3)
    assert cart.total_cents() == 4_50


def test_a_large_order_gets_ten_percent_off():
    cart = Cart()
    cart.add("desk", 200_00)
    assert cart.total_cents() == 180_00


def test_the_discount_starts_at_exactly_one_hundred():
    cart = Cart()
    cart.add("lamp", 50_00, quantity=2)
    assert cart.total_cents() == 90_00
