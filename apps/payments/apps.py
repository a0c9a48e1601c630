from parley.registry import ParleyApp


class PaymentsConfig(ParleyApp):
    payment_budgets = "paying.consider"
    sweeps = ["paying.note_receipts"]
    work_lists = ["paying.PAYMENTS"]
