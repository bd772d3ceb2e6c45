import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { limits } from '../../config/limits.ts'
import { formatAddress, networkCovers } from './address.ts'
import { inboundChains } from './inbound.ts'
import { outermost } from './rule-chains.ts'
import type { DeviceName, MacAddress } from '../ids.ts'

/** Networks of both families that often lie in one another. */
const network = fc
  .tuple(fc.constantFrom(4, 16), fc.constantFrom(0, 6, 8, 14, 16, 32), fc.nat(7), fc.nat(7))
  .map(([length, prefix, first, second]) => {
    const bytes = new Uint8Array(length)
    bytes.set([first & (0xff << Math.max(0, 8 - prefix)), second & (0xff << Math.max(0, 16 - prefix))])
    return `${formatAddress(bytes)}/${prefix}`
  })

test('of any networks, those are kept that lie in no other', () => {
  fc.assert(
    fc.property(fc.array(network), (networks) => {
      const distinct = [...new Set(networks)]
      const expected = distinct
        .filter((one) => !distinct.some((other) => other !== one && networkCovers(other, one)))
        .toSorted()
      assert.deepEqual(outermost(networks), expected)
    }),
  )
})

test('the most rules that a VM may have, each with the most networks and ports, are compiled in a moment', () => {
  const startedAt = performance.now()
  const chains = inboundChains({
    device: 'vmt100001' as DeviceName,
    macAddress: '02:76:00:01:86:a1' as MacAddress,
    inbound: Array.from({ length: limits.firewallRulesMax }, (__, rule) => ({
      protocol: 'tcp',
      ports: Array.from({ length: limits.rulePortsMax }, (_, port) => ({
        first: 2 * port + 1,
        last: 2 * port + 1,
      })),
      sources: Array.from({ length: limits.ruleNetworksMax }, (_, at) => `10.0.${at}.${rule}/32`),
    })),
  })
  const statements = chains.flatMap(({ rules }) => rules).length
  assert.equal(statements, limits.firewallRulesMax * (limits.rulePortsMax + limits.ruleNetworksMax) + 1)
  const tookMs = performance.now() - startedAt
  assert.ok(tookMs < 2000, `${tookMs} ms`)
})
