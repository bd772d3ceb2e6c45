/** Address of the daemon, and the proofs for both sides; certificates and key are PEM texts. */
export type Connection = {
  /** URL of the controller listener, such as `https://host-1:9000`. */
  readonly url: string
  /** The authority that signed the daemon's certificate. */
  readonly ca: string
  /** The controller's certificate and its key. */
  readonly cert: string
  readonly key: string
}
