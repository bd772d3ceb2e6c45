import { createHash } from 'node:crypto'
import type { CreateNetwork, CreateVm, SourcedImage } from '../../src/core/vm/create.ts'
import type { DesiredPower } from '../../src/core/desired.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

export const POWERS = ['running', 'paused', 'stopped'] as [DesiredPower, ...DesiredPower[]]
export const COMPUTE = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 }
export const SLEEPER = { ...COMPUTE, sleepAfterIdleSeconds: 5 }
export const SIZES_MIB: [number, ...number[]] = [64, 96, 128]
export const TIMEOUTS_SECONDS: [number, ...number[]] = [0, 2, 2, 10]

/** Returns the request that creates the `index`th VM; a repetition is the same request. */
export const requestOn = (host: FakeHost, index: number): CreateVm => ({
  power: 'running',
  compute: { ...COMPUTE, sleepAfterIdleSeconds: TIMEOUTS_SECONDS[index] ?? 0 },
  disk: { sizeMib: 64 },
  image: {
    images: [
      { role: 'rootfs', ...offerOn(host, 'the rootfs') },
      { role: 'kernel', ...offerOn(host, 'the kernel') },
    ],
  },
  network: addressesOf(index),
  metadata: { labels: {}, protected: false },
  sshAuthorizedKeys: [],
})

/** Returns another image than that of the creation. */
export const imageOn = (host: FakeHost, number: number): SourcedImage => offerOn(host, `rootfs ${number}`)

export const networkOf = (index: number, receiveMbitPerSecond: number): CreateNetwork => ({
  ...addressesOf(index),
  bandwidth: { receiveMbitPerSecond },
})

/** Prefixes that VMs take from one another; `null` is none. */
export const PREFIXES = ['2001:db8:1::/64', '2001:db8:2::/64', null] as const

const addressesOf = (index: number): CreateNetwork => ({
  ipv4Address: `192.0.2.${index + 1}`,
  ipv6Address: `2001:db8::${index + 1}`,
})

function offerOn(host: FakeHost, content: string): SourcedImage {
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  return { sha256, source: host.storage.offer(Buffer.from(content)) }
}
