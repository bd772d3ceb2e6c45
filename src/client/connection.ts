/** Address of the daemon, and the proofs for both sides; certificates and key are PEM texts. */
export type Connection = {
  /** URL of the controller listener, such as `https://host-1:9000`. {@link daemonUrl} says which are refused. */
  readonly url: string
  /** The authority that signed the daemon's certificate. */
  readonly ca: string
  /** The controller's certificate and its key. */
  readonly cert: string
  readonly key: string
}

/** Parses the URL of a connection. Throws a TypeError if no request can be sent there. */
export function daemonUrl(url: string): URL {
  const isUsable = URL.canParse(url) && !/[?#]/.test(url) && new URL(url).protocol === 'https:'
  if (!isUsable)
    throw new TypeError(`${JSON.stringify(url)} is not an address of a daemon, as https://host-1:9000 is`)
  return new URL(url)
}
