#!/bin/sh
# Charges a card. The line in the ledger is the effect; the bank then takes its time to answer.
echo "order $1: $2 EUR" >> ledger.txt
echo $$ > bank.pid
exec sleep 30
