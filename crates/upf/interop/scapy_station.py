#!/usr/bin/env python3
"""A base station made of scapy's GTP-U layer: a user's ping through the tunnel, an echo, a tunnel that is not there.

    scapy_station.py OWN-ADDRESS ADDRESS-OF-TUNNELS TEID OWN-TEID QFI USER HOST
"""

import socket
import sys

from scapy.contrib.gtp import GTP_U_Header, GTPEchoRequest, GTPEchoResponse, GTPErrorIndication, GTPPDUSessionContainer
from scapy.layers.inet import ICMP, IP, UDP

PORT = 2152
UPLINK = 1


def must(held, what, packet):
    if not held:
        sys.exit(f"interop: {what}: {packet.show(dump=True)}")


def main():
    own, tunnels, teid, own_teid, qfi, user, host = sys.argv[1:8]
    station = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    station.bind((own, PORT))
    station.settimeout(3)

    def ask(packet):
        station.sendto(bytes(packet), (tunnels, PORT))
        octets, sender = station.recvfrom(65536)
        answer = GTP_U_Header(octets)
        must(sender == (tunnels, PORT), f"an answer of {sender}", answer)
        return answer

    def tunnelled(number, what):
        header = GTP_U_Header(teid=number, E=1, next_ex=0x85)
        return header / GTPPDUSessionContainer(type=UPLINK, QFI=int(qfi)) / IP(src=user, dst=host) / what

    answer = ask(tunnelled(int(teid), ICMP(id=7, seq=1) / b"ping"))
    must(answer.teid == int(own_teid), "another tunnel", answer)
    must(answer.haslayer(GTPPDUSessionContainer), "no PDU session container", answer)
    container = answer[GTPPDUSessionContainer]
    must(container.type == 0 and container.QFI == int(qfi), "another QoS flow", answer)
    must(answer.haslayer(ICMP) and answer[IP].dst == user and answer[ICMP].type == 0, "no ping", answer)
    answer = ask(GTP_U_Header(gtp_type=1, teid=0, S=1, seq=77) / GTPEchoRequest())
    must(answer.haslayer(GTPEchoResponse) and answer.seq == 77, "no echo", answer)
    answer = ask(tunnelled(int(teid) ^ 0x5555, UDP(sport=5000, dport=9) / b"to nobody"))
    must(answer.haslayer(GTPErrorIndication), "no error indication", answer)
    print("scapy: a ping through the tunnel in its QoS flow, an echo, an error indication, as they must be")


if __name__ == "__main__":
    main()
