#!/usr/bin/env python3
"""A session management function made of scapy's PFCP layer: what it asks `weir upf`, and what it must be answered.

    scapy_session.py SERVER OWN-ADDRESS ADDRESS-OF-TUNNELS [STATION COMMAND ...]

With a command, that is a base station: it gets the tunnel that was chosen and its own, QFI and address of the user.
"""

import socket
import subprocess
import sys
import time

from scapy.contrib import pfcp
from scapy.contrib.pfcp import (
    PFCP, IE_ApplyAction, IE_CreateFAR, IE_CreatePDR, IE_CreateQER, IE_DestinationInterface, IE_FAR_Id, IE_FSEID, IE_FTEID,
    IE_ForwardingParameters, IE_GateStatus, IE_MBR, IE_NodeId, IE_OuterHeaderCreation, IE_OuterHeaderRemoval, IE_PDI,
    IE_PDR_Id, IE_Precedence, IE_QER_Id, IE_QFI, IE_RecoveryTimeStamp, IE_SDF_Filter, IE_SourceInterface,
    IE_UE_IP_Address,
)

ACCEPTED = 1
NO_SESSION = 65
MANDATORY_MISSING = 66
RULE_FAILURE = 73
OWN_SEID = 0x42
UE = "10.45.0.9"
GNB = "192.0.2.201"
OWN_TEID = 0x99
QFI = 5


class Client:
    def __init__(self, server, own):
        self.own, self.sequence = own, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(3)
        self.socket.bind((own, 8805))
        self.socket.connect((server, 8805))

    def ask(self, body, seid=None):
        """Sends a request and gives its answer."""
        self.sequence += 1
        header = PFCP(version=1, seq=self.sequence, **({} if seid is None else {"S": 1, "seid": seid}))
        self.socket.send(bytes(header / body))
        while True:
            answer = PFCP(self.socket.recv(65536))
            if answer.seq == self.sequence:
                return answer


def element(answer, kind):
    """The first element of a type, in the answer or within others."""
    assert answer.haslayer(kind), f"no {kind.__name__} in {answer.show(dump=True)}"
    return answer[kind]


def cause(answer):
    return element(answer, pfcp.IE_Cause).cause


def must(held, what, answer):
    if not held:
        sys.exit(f"interop: {what}: {answer.show(dump=True)}")


def rules(filters):
    """Rules of a session with two directions under one QER."""
    described = [
        IE_SDF_Filter(FD=1, flow_description=text) for text in filters
    ]
    return [
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=1), IE_Precedence(precedence=10),
            IE_PDI(IE_list=[IE_SourceInterface(interface="Access"), IE_FTEID(V4=1, CH=1)]),
            IE_OuterHeaderRemoval(header="GTP-U/UDP/IPv4"), IE_FAR_Id(id=1), IE_QER_Id(id=1),
        ]),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=2), IE_Precedence(precedence=10),
            IE_PDI(IE_list=[IE_SourceInterface(interface="Core"), IE_UE_IP_Address(V4=1, SD=1, ipv4=UE), *described]),
            IE_FAR_Id(id=2), IE_QER_Id(id=1),
        ]),
        IE_CreateFAR(IE_list=[
            IE_FAR_Id(id=1), IE_ApplyAction(FORW=1),
            IE_ForwardingParameters(IE_list=[IE_DestinationInterface(interface="Core")]),
        ]),
        IE_CreateFAR(IE_list=[
            IE_FAR_Id(id=2), IE_ApplyAction(FORW=1),
            IE_ForwardingParameters(IE_list=[
                IE_DestinationInterface(interface="Access"),
                IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=OWN_TEID, ipv4=GNB),
            ]),
        ]),
        IE_CreateQER(IE_list=[
            IE_QER_Id(id=1), IE_GateStatus(), IE_MBR(ul=20_000, dl=40_000), IE_QFI(QFI=QFI),
        ]),
    ]


def establish(client, elements):
    who = [IE_NodeId(id_type="IPv4", ipv4=client.own), IE_FSEID(v4=1, seid=OWN_SEID, ipv4=client.own)]
    return client.ask(pfcp.PFCPSessionEstablishmentRequest(IE_list=who + elements), seid=0)


def main():
    server, own, tunnels, *station = sys.argv[1:]
    client = Client(server, own)
    node = IE_NodeId(id_type="IPv4", ipv4=own)
    now = int(time.time()) + 2_208_988_800
    answer = client.ask(pfcp.PFCPAssociationSetupRequest(IE_list=[node, IE_RecoveryTimeStamp(timestamp=now)]))
    must(cause(answer) == ACCEPTED, "no association", answer)
    answer = client.ask(pfcp.PFCPHeartbeatRequest(IE_list=[IE_RecoveryTimeStamp(timestamp=now)]))
    must(answer.haslayer(pfcp.PFCPHeartbeatResponse), "no heartbeat", answer)

    answer = establish(client, rules([])[:2])
    must(cause(answer) == MANDATORY_MISSING, "a session without FAR", answer)
    answer = establish(client, rules(["permit out tcp from any to assigned"]))
    must(cause(answer) == RULE_FAILURE, "a filter that is none", answer)
    must(element(answer, pfcp.IE_FailedRuleId) is not None, "no failed rule", answer)

    answer = establish(client, rules(["permit out 6 from any 80,443 to assigned", "permit out 1 from any to assigned"]))
    must(cause(answer) == ACCEPTED, "no session", answer)
    seid = element(answer, IE_FSEID).seid
    tunnel = element(answer, IE_FTEID)
    must(tunnel.TEID != 0 and tunnel.ipv4 == tunnels, "no tunnel", answer)
    if station:
        own_end = [GNB, tunnels, str(tunnel.TEID), str(OWN_TEID), str(QFI), UE]
        subprocess.run([*station[:-1], *own_end, station[-1]], check=True, timeout=30)
    for expected in (ACCEPTED, NO_SESSION):
        answer = client.ask(pfcp.PFCPSessionDeletionRequest(), seid=seid)
        must(cause(answer) == expected, "deletion", answer)
    answer = client.ask(pfcp.PFCPAssociationReleaseRequest(IE_list=[node]))
    must(cause(answer) == ACCEPTED, "not released", answer)
    print("scapy: association, session, refusals, deletion and release as they must be")


if __name__ == "__main__":
    main()
