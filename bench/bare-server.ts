/*
 * The reference for the API: fastify over the same mutual TLS, with the same schemas and answers, and nothing behind
 * them. It also accepts any WebSocket.
 */
import { readFileSync } from 'node:fs'
import fastify from 'fastify'
import { Type } from 'typebox'
import { WebSocketServer } from 'ws'
import { exampleVm } from '../src/api/wire/examples.ts'
import { namedSchemas } from '../src/api/wire/named.ts'
import { computeMembers } from '../src/api/wire/vm.ts'
import type { AddressInfo } from 'node:net'

const TLS = '/etc/vmhostd/tls'
const app = fastify({
  https: {
    ca: readFileSync(`${TLS}/ca.crt`),
    cert: readFileSync(`${TLS}/server.crt`),
    key: readFileSync(`${TLS}/server.key`),
    minVersion: 'TLSv1.3',
    requestCert: true,
    rejectUnauthorized: true,
  },
})
for (const [name, schema] of Object.entries(namedSchemas)) app.addSchema({ ...schema, $id: name })
const body = Type.Object(computeMembers, { additionalProperties: false })
const vm = { $ref: 'Vm#' }

app.get('/v1/vms/:id', { schema: { response: { 200: vm } } }, async () => exampleVm)
app.put('/v1/vms/:id/compute', { schema: { body, response: { 202: vm } } }, async (_request, reply) => {
  reply.code(202)
  return exampleVm
})
app.get<{ Querystring: { limit: number } }>(
  '/v1/vms',
  { schema: { querystring: Type.Object({ limit: Type.Integer() }), response: { 200: { $ref: 'VmList#' } } } },
  async (request) => ({ items: Array.from({ length: request.query.limit }, () => exampleVm), revision: 0 }),
)
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
app.server.on('upgrade', (request, socket, head) => sockets.handleUpgrade(request, socket, head, () => {}))
await app.listen({ host: '::', port: 0 })
console.log((app.server.address() as AddressInfo).port)
// It ends with the benchmark that started it.
process.stdin.on('end', () => process.exit()).resume()
