//! The E-model, ITU-T G.107 (2015): how a call is rated from its delay and its losses.
//!
//! All that is not said by a call has the default of G.107 table 2; there the rating is 93.2. The echo of
//! the far end is attenuated as there (TELR 65 dB, WEPL 110 dB), so that delay alone makes it audible.

/// What a call brings with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speech {
    /// Delay from mouth to ear, one way, in milliseconds (`Ta`; `T` and `Tr/2` are the same).
    pub delay_ms: f64,
    /// Share of the packets that were not played, 0 to 1 (`Ppl` / 100).
    pub loss: f64,
    /// Mean length of runs of lost packets, divided by that of independent losses (`BurstR`); 1 or more.
    pub burst_ratio: f64,
    /// Equipment impairment factor of the codec (ITU-T G.113).
    pub ie: f64,
    /// Packet-loss robustness factor of the codec (ITU-T G.113).
    pub bpl: f64,
}

// Table 2 of G.107: loudness ratings, sidetone, echo, noise.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const OLR: f64 = SLR + RLR;
const STMR: f64 = 15.0;
const LSTR: f64 = 18.0;
const DS: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
/// Quantizing distortion units.
const QDU: f64 = 1.0;
/// Delays up to here do not hinder a conversation (`mT`).
const NOTICED_MS: f64 = 100.0;

fn power(decibel: f64) -> f64 {
    10f64.powf(decibel / 10.0)
}

/// Sum of all noise in dBm0p (clause 7.2, equations 7-3 to 7-7).
fn noise() -> f64 {
    let sender = PS - SLR - DS - 100.0 + 0.004 * (PS - OLR - DS - 14.0).powi(2);
    let effective = PR + 10.0 * (1.0 + 10f64.powf((10.0 - LSTR) / 10.0)).log10();
    let receiver = RLR - 121.0 + effective + 0.008 * (effective - 35.0).powi(2);
    10.0 * (power(NC) + power(sender) + power(receiver) + power(NFOR + RLR)).log10()
}

/// Basic signal-to-noise ratio `Ro` (equation 7-2).
fn basic(noise: f64) -> f64 {
    15.0 - 1.5 * (SLR + noise)
}

/// What impairs at the same time as speech, `Is` (clause 7.3).
fn simultaneous(noise: f64, delay_ms: f64) -> f64 {
    // Too loud (7-9, 7-10).
    let x = OLR + 0.2 * (64.0 + noise - RLR);
    let loud = 20.0 * ((1.0 + (x / 8.0).powi(8)).powf(1.0 / 8.0) - x / 8.0);
    // Sidetone (7-11, 7-12).
    let s = -10.0 * (power(-STMR) + (-delay_ms / 4.0).exp() * power(-TELR)).log10();
    let sidetone = 12.0 * (1.0 + ((s - 13.0) / 6.0).powi(8)).powf(1.0 / 8.0)
        - 28.0 * (1.0 + ((s + 1.0) / 19.4).powi(35)).powf(1.0 / 35.0)
        - 13.0 * (1.0 + ((s - 3.0) / 33.0).powi(13)).powf(1.0 / 13.0)
        + 29.0;
    // Quantizing (7-13 to 7-17).
    let q = 37.0 - 15.0 * QDU.log10();
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (basic(noise) - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantizing = 15.0 * (1.0 + 10f64.powf(y) + 10f64.powf(z)).log10();
    loud + sidetone + quantizing
}

/// What delay impairs, `Id` (clause 7.4): echo of the talker, echo of the listener, and delay itself.
fn delay(noise: f64, delay_ms: f64) -> f64 {
    let t = delay_ms;
    // Talker echo (7-19 to 7-22); none below 1 ms.
    let terv = TELR - 40.0 * ((1.0 + t / 10.0) / (1.0 + t / 150.0)).log10() + 6.0 * (-0.3 * t * t).exp();
    let (re, roe) = (80.0 + 2.5 * (terv - 14.0), -1.5 * (noise - RLR));
    let talker = ((roe - re) / 2.0 + ((roe - re).powi(2) / 4.0 + 100.0).sqrt() - 1.0) * (1.0 - (-t).exp());
    let talker = if t < 1.0 { 0.0 } else { talker };
    // Listener echo (7-25, 7-26), of the round trip.
    let (ro, rle) = (basic(noise), 10.5 * (WEPL + 7.0) * (2.0 * t + 1.0).powf(-0.25));
    let listener = (ro - rle) / 2.0 + ((ro - rle).powi(2) / 4.0 + 169.0).sqrt();
    talker + listener + too_late(t)
}

/// Delay that hinders a conversation though there is no echo (7-27, 7-28, with the default sensitivity 1).
fn too_late(delay_ms: f64) -> f64 {
    if delay_ms <= NOTICED_MS {
        return 0.0;
    }
    let x = (delay_ms / NOTICED_MS).log2();
    let root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// What the codec impairs with these losses, `Ie,eff` (clause 7.5).
fn equipment(speech: &Speech) -> f64 {
    let percent = 100.0 * speech.loss;
    speech.ie + (95.0 - speech.ie) * percent / (percent / speech.burst_ratio.max(1.0) + speech.bpl)
}

/// The transmission rating factor `R` (equation 7-1); 93.2 is the best of a narrow-band call, below 50 is not
/// recommended.
pub fn rating(speech: &Speech) -> f64 {
    let noise = noise();
    basic(noise) - simultaneous(noise, speech.delay_ms) - delay(noise, speech.delay_ms) - equipment(speech)
}

/// Mean opinion score in conversation, 1 to 4.5, of a rating (annex B).
pub fn mos(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Speech = Speech { delay_ms: 0.0, loss: 0.0, burst_ratio: 1.0, ie: 0.0, bpl: 25.1 };

    fn near(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 0.01, "{value} where {wanted} is published");
    }

    #[test]
    fn the_default_call_has_the_rating_of_the_recommendation() {
        // G.107: with all parameters at their defaults Ro is 94.77, Is 1.41 and R 93.2, MOS 4.41.
        let noise = noise();
        near(basic(noise), 94.77);
        near(simultaneous(noise, 0.0), 1.41);
        assert!((rating(&CALL) - 93.2).abs() < 0.05, "{}", rating(&CALL));
        near(mos(rating(&CALL)), 4.41);
    }

    #[test]
    fn ratings_have_the_opinions_of_annex_b() {
        // Table B.1: lower limits of the categories of satisfaction.
        for (r, wanted) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            near(mos(r), wanted);
        }
        assert_eq!((mos(-5.0), mos(0.0), mos(120.0)), (1.0, 1.0, 4.5));
        // The cubic falls below 1 for the smallest ratings, where no opinion is.
        assert_eq!(mos(3.0), 1.0);
    }

    #[test]
    fn delay_costs_what_was_published() {
        // Cole and Rosenbluth 2001: Id = 0.024 d + 0.11 (d - 177.3) above 177.3 ms, a fit of G.107 up to
        // 300 ms.
        for ms in [20.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0] {
            let fit = 93.2 - 0.024 * ms - 0.11 * f64::max(ms - 177.3, 0.0);
            near(rating(&Speech { delay_ms: ms, ..CALL }), fit);
        }
    }

    #[test]
    fn losses_cost_what_the_codec_makes_of_them() {
        // Ie,eff of G.711 with 2 % of random loss: 95 * 2 / 27.1 with concealment, 95 * 2 / 6.3 without.
        let rated = |bpl: f64, burst_ratio: f64| rating(&Speech { loss: 0.02, bpl, burst_ratio, ..CALL });
        near(rated(25.1, 1.0), 93.2 - 7.01);
        near(rated(4.3, 1.0), 93.2 - 30.16);
        // Runs of losses are worse.
        near(rated(25.1, 2.0), 93.2 - 95.0 * 2.0 / 26.1);
        // G.729A with VAD: 11 without loss.
        near(rating(&Speech { ie: 11.0, bpl: 19.0, ..CALL }), 82.2);
    }
}
