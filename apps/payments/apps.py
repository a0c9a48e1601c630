from parley.registry import ParleyApp


class PaymentsConfig(ParleyApp):
    account_remains = ["budgets.remains_of"]
    payment_budgets = "paying.consider"
    sweeps = ["paying.note_receipts"]
    work_lists = ["paying.PAYMENTS"]
