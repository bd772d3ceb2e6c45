/** Bounds of certificates, and of warnings about them; a part of `limits`. */
export const certificateLimits = {
  /** How often certificate files are checked; a renewed one is served from the next handshake on. */
  certificateRecheckMs: 10_000,
  /** Certificates of clients that are remembered, and for how long after their last connection. */
  clientCertificatesMax: 64,
  clientCertificateSeenMs: 7 * 24 * 3_600_000,
  /**
   * A certificate that a controller or a reader of metrics has not used for so long was probably replaced;
   * no alert is about it.
   */
  neededClientSeenMs: 24 * 3_600_000,
  /** The daemon warns about a certificate that expires sooner than this. */
  certificateWarningDays: 30,
  /** How often it warns, until the certificate is replaced. */
  certificateWarnEveryMs: 24 * 3_600_000,
  /** The furthest that the clock may be put back without repeating an event of a certificate or a revocation list. */
  certificateEventClockMs: 24 * 3_600_000,
  /** "vmhostd setup": long, because replacing an authority means touching every host. */
  authorityValidityDays: 3650,
  /** "vmhostd setup": the longest validity that common TLS clients accept from a server. */
  certificateValidityDays: 825,
  /**
   * How long before it is made a certificate begins, as a part of its validity. A peer whose clock is behind accepts it
   * at once, and so does every peer after a set-up whose clock was ahead: by a wrong time zone, for instance.
   */
  certificateBackdateMs: 24 * 3_600_000,
} as const
