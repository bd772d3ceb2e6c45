import { isIP, isIPv6 } from 'node:net'
import { bareAddress } from '../../config/config.ts'
import type { Config } from '../../config/config.ts'

/** Addresses of a listener that `localhost` leads to. */
const LOCAL = ['0.0.0.0', '::', '127.0.0.1', '::1']

/** Returns the one address at which a listener is reached; undefined if `localhost` leads to it. */
export function onlyAddress({ listenAddress }: { readonly listenAddress: string }): string | undefined {
  const address = bareAddress(listenAddress)
  return LOCAL.includes(address) ? undefined : address
}

/** Returns the URL at which this host reaches its own controller API. */
export function ownUrl({ controller }: Pick<Config, 'controller'>): string {
  const address = onlyAddress(controller) ?? 'localhost'
  return `https://${isIPv6(address) ? `[${address}]` : address}:${controller.port}`
}

/**
 * Returns whether a URL may lead to this host's own controller API.
 * A host name other than `localhost` may have any address.
 */
export function mayBeOwnUrl(text: string, { controller }: Pick<Config, 'controller'>): boolean {
  const [url, own] = [new URL(text), new URL(ownUrl({ controller }))]
  if (url.origin === own.origin) return true
  if (url.protocol !== own.protocol || url.port !== own.port) return false
  const [host, listens] = [bareAddress(url.hostname), bareAddress(controller.listenAddress)]
  const isName = isIP(host) === 0 && host !== 'localhost'
  return isName || host === listens || ['0.0.0.0', '::'].includes(listens)
}
