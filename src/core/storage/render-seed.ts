import { GATEWAY_IPV4, GATEWAY_IPV6 } from '../network/tap.ts'
import type { Network } from '../vm/desired.ts'
import type { VmId } from '../vm/ids.ts'
import type { Seed } from './seed.ts'

/** What a guest is told by its seed disk. */
export type SeedContent = {
  readonly id: VmId
  /** The same for the life of the VM: cloud-init takes another one for a new machine and sets it up again. */
  readonly instanceId: string
  readonly userData?: string
  readonly sshAuthorizedKeys: readonly string[]
  readonly network?: Network
}

/** The NoCloud seed of a VM (cloud-init, "NoCloud" datasource). `sha256` gives lower-case hexadecimal. */
export function renderSeed(content: SeedContent, sha256: (text: string) => string): Seed {
  const files = [
    { name: 'meta-data', content: renderMetaData(content) },
    { name: 'user-data', content: content.userData ?? renderUserData(content.sshAuthorizedKeys) },
  ]
  // Without this file cloud-init asks for DHCP, on devices that a VM without network has not.
  if (content.network !== undefined) {
    files.push({ name: 'network-config', content: renderNetworkConfig(content.network) })
  }
  return { digest: sha256(JSON.stringify(files)), files }
}

/** A JSON string is a YAML one (YAML 1.2, "1.2. YAML 1.2 and JSON"), so nothing in it can be taken for YAML syntax. */
const quoted = (text: string): string => JSON.stringify(text)

const lines = (...parts: readonly string[]): string => parts.map((part) => `${part}\n`).join('')

const listOf = (name: string, values: readonly string[], indent = ''): string[] =>
  values.length === 0 ? [] : [`${indent}${name}:`, ...values.map((value) => `${indent}  - ${quoted(value)}`)]

function renderMetaData({ id, instanceId, sshAuthorizedKeys }: SeedContent): string {
  return lines(
    `instance-id: ${quoted(instanceId)}`,
    `local-hostname: ${quoted(id)}`,
    ...listOf('public-keys', sshAuthorizedKeys),
  )
}

const renderUserData = (sshAuthorizedKeys: readonly string[]): string =>
  lines('#cloud-config', ...listOf('ssh_authorized_keys', sshAuthorizedKeys))

/**
 * Static, version 2 (cloud-init, "Networking config Version 2"). The link is routed: an address is the whole of its
 * network, and the gateway is reached on the link although no address covers it.
 */
function renderNetworkConfig({ macAddress, ipv4Address, ipv6Address }: Network): string {
  const addresses: string[] = []
  const routes: string[] = []
  const add = (address: string, to: string, via: string): void => {
    addresses.push(address)
    routes.push(`      - to: ${quoted(to)}`, `        via: ${quoted(via)}`, '        on-link: true')
  }
  if (ipv4Address !== undefined) add(`${ipv4Address}/32`, '0.0.0.0/0', GATEWAY_IPV4)
  if (ipv6Address !== undefined) add(`${ipv6Address}/128`, '::/0', GATEWAY_IPV6)
  return lines(
    'version: 2',
    'ethernets:',
    '  guest:',
    '    match:',
    `      macaddress: ${quoted(macAddress)}`,
    '    dhcp4: false',
    '    dhcp6: false',
    '    accept-ra: false',
    ...listOf('addresses', addresses, '    '),
    ...(routes.length === 0 ? [] : ['    routes:', ...routes]),
  )
}
