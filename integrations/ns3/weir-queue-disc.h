/* A queue disc of ns-3 that is any discipline, algorithm and policy of libweir. */
#ifndef WEIR_QUEUE_DISC_H
#define WEIR_QUEUE_DISC_H

#include "ns3/event-id.h"
#include "ns3/queue-disc.h"

#include <map>
#include <string>
#include <vector>
#include <weir.h>

namespace ns3
{

class WeirStore;

/**
 * What its attribute `Config` says, in the words of libweir(3): `rate`, and tables `queue`, `aqm` and `policy`. Lengths are those of
 * IP packets (QueueItem::GetSize), so the rate is meant in them. Time is that of the simulator, and the library keeps its state in
 * the object, so that runs are repeated by their seeds.
 */
class WeirQueueDisc : public QueueDisc
{
  public:
    static TypeId GetTypeId();
    WeirQueueDisc();
    ~WeirQueueDisc() override;

    /** Steers by another policy (keys of the table `policy`); an empty text ends steering. What is refused changes nothing and
     *  says why. */
    bool SetPolicy(const std::string& policy, std::string& message);
    /** The set point in force; zero where there is none. */
    Time GetSetpoint() const;
    /** The library's account of the packets. */
    weir_stats GetAccount() const;
    /** Inner variables of the algorithm and of steering, by name. */
    std::map<std::string, double> GetGauges() const;

    /* Why packets are discarded or marked, as GetStats has them. */
    static constexpr const char* OVERFLOW_DROP = "No room";
    static constexpr const char* SET_POINT_DROP = "Above the set point";
    static constexpr const char* CHANCE_DROP = "By chance";
    static constexpr const char* SET_POINT_MARK = "Above the set point, marked";
    static constexpr const char* CHANCE_MARK = "By chance, marked";

  protected:
    void DoDispose() override;

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override;
    Ptr<QueueDiscItem> DoDequeue() override;
    bool CheckConfig() override;
    void InitializeParams() override;
    void End();

    std::string m_config;
    uint64_t m_seed{0};
    uint32_t m_perturbation{0};
    weir_queue* m_queue{nullptr};
    Ptr<WeirStore> m_store;
    EventId m_wake;
};

} // namespace ns3

#endif
