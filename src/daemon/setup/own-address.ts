import { isIPv6 } from 'node:net'
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
