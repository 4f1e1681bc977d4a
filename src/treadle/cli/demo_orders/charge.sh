#!/bin/sh
# Charges a card. The line in the ledger is the effect; the bank then takes its time to answer, 30 s at most.
echo "order $1: $2 EUR" >> ledger.txt
: > bank.busy
tenths=300
while [ -e bank.busy ] && [ "$tenths" -gt 0 ]; do
    sleep 0.1
    tenths=$((tenths - 1))
done
