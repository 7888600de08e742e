// A session management function made of go-pfcp: what it asks `weir upf`, and what it must be answered.
//
//	interop SERVER OWN-ADDRESS ADDRESS-OF-TUNNELS
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

const (
	ownSEID    = 0x1122334455667788
	gnbAddress = "192.0.2.200"
	ueAddress  = "10.45.0.7"
)

type client struct {
	conn     *net.UDPConn
	own      string
	started  time.Time
	sequence uint32
}

func must(held bool, format string, arguments ...any) {
	if !held {
		fmt.Fprintf(os.Stderr, "interop: "+format+"\n", arguments...)
		os.Exit(1)
	}
}

func (c *client) next() uint32 {
	c.sequence++
	return c.sequence
}

// exchange sends a request and gives its answer, with the octets of both.
func (c *client) exchange(request message.Message) (message.Message, []byte, []byte) {
	octets := make([]byte, request.MarshalLen())
	must(request.MarshalTo(octets) == nil, "cannot write %s", request.MessageTypeName())
	return c.send(octets, request.Sequence())
}

func (c *client) send(octets []byte, sequence uint32) (message.Message, []byte, []byte) {
	_, err := c.conn.Write(octets)
	must(err == nil, "cannot send: %v", err)
	buffer := make([]byte, 65536)
	c.conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	for {
		length, err := c.conn.Read(buffer)
		must(err == nil, "no answer: %v", err)
		answer, err := message.Parse(buffer[:length])
		must(err == nil, "go-pfcp does not read the answer: %v", err)
		if answer.Sequence() == sequence {
			return answer, octets, append([]byte(nil), buffer[:length]...)
		}
	}
}

func cause(element *ie.IE) uint8 {
	must(element != nil, "an answer without a cause")
	value, err := element.Cause()
	must(err == nil, "a cause that is none: %v", err)
	return value
}

func (c *client) associate() {
	request := message.NewAssociationSetupRequest(c.next(), ie.NewNodeID(c.own, "", ""),
		ie.NewRecoveryTimeStamp(c.started))
	answer, _, _ := c.exchange(request)
	setup, is := answer.(*message.AssociationSetupResponse)
	must(is && cause(setup.Cause) == ie.CauseRequestAccepted, "no association: %v", answer)
	must(setup.UPFunctionFeatures != nil && setup.UPFunctionFeatures.HasFTUP(), "tunnels are not allocated")
	_, err := setup.RecoveryTimeStamp.RecoveryTimeStamp()
	must(err == nil, "no recovery time stamp: %v", err)
	beat, _, _ := c.exchange(message.NewHeartbeatRequest(c.next(), ie.NewRecoveryTimeStamp(c.started), nil))
	_, is = beat.(*message.HeartbeatResponse)
	must(is, "no heartbeat: %v", beat)
}

func (c *client) rules() []*ie.IE {
	return []*ie.IE{
		ie.NewCreatePDR(ie.NewPDRID(1), ie.NewPrecedence(100),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess), ie.NewFTEID(0x05, 0, nil, nil, 0),
				ie.NewUEIPAddress(0x02, ueAddress, "", 0, 0), ie.NewQFI(9)),
			ie.NewOuterHeaderRemoval(0, 0), ie.NewFARID(1), ie.NewQERID(1), ie.NewQERID(2)),
		ie.NewCreatePDR(ie.NewPDRID(2), ie.NewPrecedence(100),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCore), ie.NewUEIPAddress(0x06, ueAddress, "", 0, 0),
				ie.NewSDFFilter("permit out 17 from 198.51.100.0/24 5000-6000 to assigned", "", "", "", 7)),
			ie.NewFARID(2), ie.NewQERID(1), ie.NewQERID(2)),
		ie.NewCreateFAR(ie.NewFARID(1), ie.NewApplyAction(0x02),
			ie.NewForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceCore))),
		ie.NewCreateFAR(ie.NewFARID(2), ie.NewApplyAction(0x02),
			ie.NewForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceAccess),
				ie.NewOuterHeaderCreation(0x0100, 0x1234, gnbAddress, "", 0, 0, 0))),
		ie.NewCreateQER(ie.NewQERID(1), ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen),
			ie.NewMBR(50000, 100000)),
		ie.NewCreateQER(ie.NewQERID(2), ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen), ie.NewQFI(9)),
	}
}

// establish gives our number of the session.
func (c *client) establish(tunnels string) uint64 {
	elements := append([]*ie.IE{ie.NewNodeID(c.own, "", ""), ie.NewFSEID(ownSEID, net.ParseIP(c.own), nil)}, c.rules()...)
	request := message.NewSessionEstablishmentRequest(0, 0, 0, c.next(), 0, elements...)
	answer, octets, first := c.exchange(request)
	session, is := answer.(*message.SessionEstablishmentResponse)
	must(is && cause(session.Cause) == ie.CauseRequestAccepted && session.SEID() == ownSEID, "no session: %v", answer)
	fseid, err := session.UPFSEID.FSEID()
	must(err == nil && fseid.SEID != 0, "no F-SEID: %v", err)
	must(len(session.CreatedPDR) == 1, "%d tunnels were created", len(session.CreatedPDR))
	tunnel, err := session.CreatedPDR[0].FTEID()
	must(err == nil && tunnel.TEID != 0 && tunnel.IPv4Address.String() == tunnels, "the tunnel is %v: %v", tunnel, err)
	_, _, second := c.send(octets, request.Sequence())
	must(bytes.Equal(first, second), "the same request got another answer")
	return fseid.SEID
}

func (c *client) modify(seid uint64) {
	moved := ie.NewUpdateFAR(ie.NewFARID(2), ie.NewApplyAction(0x02), ie.NewUpdateForwardingParameters(
		ie.NewDestinationInterface(ie.DstInterfaceAccess),
		ie.NewOuterHeaderCreation(0x0100, 0x5678, gnbAddress, "", 0, 0, 0), ie.NewPFCPSMReqFlags(0x02)))
	answer, _, _ := c.exchange(message.NewSessionModificationRequest(0, 0, seid, c.next(), 0, moved))
	done, is := answer.(*message.SessionModificationResponse)
	must(is && cause(done.Cause) == ie.CauseRequestAccepted, "not modified: %v", answer)
	wrong := ie.NewUpdateFAR(ie.NewFARID(9), ie.NewApplyAction(0x01))
	answer, _, _ = c.exchange(message.NewSessionModificationRequest(0, 0, seid, c.next(), 0, wrong))
	refused, is := answer.(*message.SessionModificationResponse)
	must(is && cause(refused.Cause) == ie.CauseRuleCreationModificationFailure, "not refused: %v", answer)
	must(refused.FailedRuleID != nil, "no failed rule: %v", answer)
	bar := ie.NewCreateBAR(ie.NewBARID(1))
	answer, _, _ = c.exchange(message.NewSessionModificationRequest(0, 0, seid, c.next(), 0, bar))
	done, is = answer.(*message.SessionModificationResponse)
	must(is && cause(done.Cause) == ie.CauseRequestAccepted, "a buffering rule was not taken: %v", answer)
}

// usage has the session measured: it is asked, reports each second, and tells the rest when the rule ends.
func (c *client) usage(seid uint64) {
	urr := ie.NewCreateURR(ie.NewURRID(1), ie.NewMeasurementMethod(0, 1, 1), ie.NewReportingTriggers(1, 0, 0),
		ie.NewMeasurementPeriod(time.Second), ie.NewMeasurementInformation(0x18))
	named := ie.NewUpdatePDR(ie.NewPDRID(2), ie.NewURRID(1))
	c.modified(seid, urr, named)
	asked := c.modified(seid, ie.NewQueryURR(ie.NewURRID(1)))
	must(len(asked.UsageReport) == 1, "%d answers to a query", len(asked.UsageReport))
	c.reported(asked.UsageReport[0], 0, func(trigger *ie.IE) bool { return trigger.HasIMMER() })
	report := c.report()
	must(report.SEID() == ownSEID && report.ReportType.HasUSAR() && len(report.UsageReport) == 1, "a report: %v", report)
	c.reported(report.UsageReport[0], 1, func(trigger *ie.IE) bool { return trigger.HasPERIO() })
	ended := c.modified(seid, ie.NewRemoveURR(ie.NewURRID(1)))
	must(len(ended.UsageReport) == 1, "%d last reports", len(ended.UsageReport))
	c.reported(ended.UsageReport[0], 2, func(trigger *ie.IE) bool { return trigger.HasTERMR() })
}

func (c *client) modified(seid uint64, elements ...*ie.IE) *message.SessionModificationResponse {
	answer, _, _ := c.exchange(message.NewSessionModificationRequest(0, 0, seid, c.next(), 0, elements...))
	done, is := answer.(*message.SessionModificationResponse)
	must(is && cause(done.Cause) == ie.CauseRequestAccepted, "not modified: %v", answer)
	return done
}

// report waits for a report and lets it come a second time, before it is answered.
func (c *client) report() *message.SessionReportRequest {
	buffer := make([]byte, 65536)
	seen := uint32(0)
	c.conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	for {
		length, err := c.conn.Read(buffer)
		must(err == nil, "no report: %v", err)
		parsed, err := message.Parse(buffer[:length])
		must(err == nil, "go-pfcp does not read the request: %v", err)
		request, is := parsed.(*message.SessionReportRequest)
		if !is || seen == 0 || request.Sequence() != seen {
			if is && seen == 0 {
				seen = request.Sequence()
			}
			continue
		}
		answer := message.NewSessionReportResponse(0, 0, 0, request.Sequence(), 0, ie.NewCause(ie.CauseRequestAccepted))
		octets := make([]byte, answer.MarshalLen())
		must(answer.MarshalTo(octets) == nil, "cannot write the answer to a report")
		_, err = c.conn.Write(octets)
		must(err == nil, "cannot send: %v", err)
		return request
	}
}

func (c *client) reported(group *ie.IE, number uint32, is func(*ie.IE) bool) {
	report, err := group.UsageReport()
	must(err == nil, "no usage report: %v", err)
	ids := map[uint16]*ie.IE{}
	for _, element := range report {
		ids[element.Type] = element
	}
	must(ids[ie.URRID] != nil && ids[ie.URSEQN] != nil && ids[ie.VolumeMeasurement] != nil, "a report without usage")
	sequence, err := ids[ie.URSEQN].URSEQN()
	must(err == nil && sequence >= number, "report %d, not %d: %v", sequence, number, err)
	must(ids[ie.UsageReportTrigger] != nil && is(ids[ie.UsageReportTrigger]), "report %d for another reason", number)
	volume, err := ids[ie.VolumeMeasurement].VolumeMeasurement()
	must(err == nil && volume.HasTOVOL() && volume.HasDLNOP(), "a volume that is none: %v", err)
	_, err = ids[ie.DurationMeasurement].DurationMeasurement()
	must(err == nil, "a duration that is none: %v", err)
}

func (c *client) end(seid uint64) {
	for _, expected := range []uint8{ie.CauseRequestAccepted, ie.CauseSessionContextNotFound} {
		answer, _, _ := c.exchange(message.NewSessionDeletionRequest(0, 0, seid, c.next(), 0))
		gone, is := answer.(*message.SessionDeletionResponse)
		must(is && cause(gone.Cause) == expected, "deletion: %v", answer)
	}
	answer, _, _ := c.exchange(message.NewAssociationReleaseRequest(c.next(), ie.NewNodeID(c.own, "", "")))
	released, is := answer.(*message.AssociationReleaseResponse)
	must(is && cause(released.Cause) == ie.CauseRequestAccepted, "not released: %v", answer)
}

func main() {
	must(len(os.Args) == 4, "give the server, the own address and that of tunnels")
	server, own := net.ParseIP(os.Args[1]), net.ParseIP(os.Args[2])
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: own, Port: 8805}, &net.UDPAddr{IP: server, Port: 8805})
	must(err == nil, "%v", err)
	c := &client{conn: conn, own: os.Args[2], started: time.Now()}
	c.associate()
	seid := c.establish(os.Args[3])
	c.modify(seid)
	c.usage(seid)
	c.end(seid)
	fmt.Println("go-pfcp: association, session, modification, refusals, repetition, usage reports, deletion and release as they must be")
}
