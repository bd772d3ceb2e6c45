import { GATEWAY_IPV4, GATEWAY_IPV6 } from '../network/tap.ts'
import { given } from '../../lib/given.ts'
import type { GuestMetadata } from '../monitor/machine-spec.ts'
import type { Network } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { VmInputs } from '../vm/create.ts'
import type { VmRecord } from '../vm/record.ts'

/** The name of the volume, by which cloud-init finds a seed disk (cloud-init, "NoCloud" datasource). */
export const SEED_LABEL = 'cidata'

/** The files of a NoCloud seed disk. */
export type SeedDisk = {
  /** Digest of all the files; shows whether a disk on the host is this seed. */
  readonly digest: string
  readonly files: readonly { readonly name: string; readonly content: string }[]
}

/** Everything that a guest learns at its boot, in both forms. */
export type Seed = SeedDisk & { readonly guestMetadata: GuestMetadata }

/** The content of a guest's seed disk. */
export type SeedContent = {
  readonly id: VmId
  /** cloud-init takes another id for a new machine, and sets it up again. */
  readonly instanceId: string
  readonly userData?: string
  /** The user's keys. */
  readonly sshAuthorizedKeys: readonly string[]
  /** The daemon's own key, with which it logs in: one line of authorized_keys (sshd(8)). */
  readonly daemonSshKey: string
  readonly network?: Network
}

/**
 * Renders the seed of a VM on record. `daemonSshKey` is the public key of the daemon under which the guest first
 * booted, or of this one before its next boot.
 */
export const seedOf = (
  { id, createdAtMs, desired: { network, instance = 1 } }: Pick<VmRecord, 'id' | 'createdAtMs' | 'desired'>,
  { sshAuthorizedKeys, userData }: Pick<VmInputs, 'sshAuthorizedKeys' | 'userData'>,
  options: { readonly daemonSshKey: string; readonly sha256: (text: string) => string },
): Seed =>
  renderSeed(
    {
      id,
      // A VM that was deleted and created again with the same id is another instance.
      instanceId: `${id}-${createdAtMs}${instance === 1 ? '' : `-${instance}`}`,
      sshAuthorizedKeys,
      daemonSshKey: options.daemonSshKey,
      ...given({ userData, network }),
    },
    options.sha256,
  )

/** Renders the NoCloud seed of a VM (cloud-init, "NoCloud" datasource). `sha256` returns lower-case hexadecimal. */
export function renderSeed(content: SeedContent, sha256: (text: string) => string): Seed {
  const parts = {
    'user-data': content.userData ?? renderUserData(content.sshAuthorizedKeys),
    'vendor-data': VENDOR_DATA,
    // Without this file, cloud-init asks for DHCP on devices that a VM without network does not have.
    ...(content.network === undefined ? {} : { 'network-config': renderNetworkConfig(content.network) }),
  }
  const files = [
    { name: 'meta-data', content: renderMetaData(content) },
    ...Object.entries(parts).map(([name, text]) => ({ name, content: text })),
  ]
  const guestMetadata = { latest: { 'meta-data': metaDataOf(content), ...parts } }
  return { digest: sha256(JSON.stringify(files)), files, guestMetadata }
}

/**
 * By default, cloud-init keeps keys from root. This is set here and not in the user data, which stays the user's and
 * wins key by key (cloud-init, "Vendor-data"): `disable_root: true` there keeps the daemon out of root.
 */
const VENDOR_DATA = '#cloud-config\ndisable_root: false\n'

/**
 * Quotes text as JSON. A JSON string is also a YAML string (YAML 1.2, "1.2. YAML 1.2 and JSON"), so nothing in it can
 * be read as YAML syntax.
 */
const quoted = (text: string): string => JSON.stringify(text)

const lines = (...parts: readonly string[]): string => parts.map((part) => `${part}\n`).join('')

const listOf = (name: string, values: readonly string[], indent = ''): string[] =>
  values.length === 0 ? [] : [`${indent}${name}:`, ...values.map((value) => `${indent}  - ${quoted(value)}`)]

const metaDataOf = ({
  id,
  instanceId,
  sshAuthorizedKeys,
  daemonSshKey,
}: SeedContent): GuestMetadata['latest']['meta-data'] => ({
  'instance-id': instanceId,
  'local-hostname': id,
  'public-keys': Object.fromEntries(
    [...sshAuthorizedKeys, daemonSshKey].map((key, index) => [String(index), { 'openssh-key': key }]),
  ),
})

function renderMetaData({ id, instanceId, sshAuthorizedKeys, daemonSshKey }: SeedContent): string {
  return lines(
    `instance-id: ${quoted(instanceId)}`,
    `local-hostname: ${quoted(id)}`,
    ...listOf('public-keys', [...sshAuthorizedKeys, daemonSshKey]),
  )
}

const renderUserData = (sshAuthorizedKeys: readonly string[]): string =>
  lines('#cloud-config', ...listOf('ssh_authorized_keys', sshAuthorizedKeys))

/**
 * Renders a static configuration, version 2 (cloud-init, "Networking config Version 2"). The link is routed: an address
 * is the whole of its network, and the gateway is on the link although no network covers it.
 */
function renderNetworkConfig({ macAddress, ipv4Address, ipv6Address, nameServers = [] }: Network): string {
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
    ...(nameServers.length === 0 ? [] : ['    nameservers:', ...listOf('addresses', nameServers, '      ')]),
  )
}
