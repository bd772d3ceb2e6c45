import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { logLines } from '../../../core/console/plain-text.ts'
import { closed } from '../../../lib/schema-check.ts'
import { refuseWithoutOutput } from '../../console/open-viewer.ts'
import { problems, requestIdHeader } from '../../listener/answers.ts'
import { Refused } from '../../listener/refused.ts'
import { contextOf, params, tags, vmOf } from './vm-parts.ts'
import type { VmId } from '../../../core/ids.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves what is kept of a serial console as text. It is audited like the opening of a console. */
export function consoleLogRoute(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'getConsoleLog',
    tags,
    summary: 'Read what a VM wrote on its console',
    description:
      `The newest ${limits.consoleHistoryBytes / 1024} KiB of the serial console as lines of text, of this session or, if the VM does not run, of ` +
      'the last one in this boot of the host. Escape sequences, control characters and marks of the direction of text are left out, a carriage return begins a ' +
      'line, and bytes that are no UTF-8 are replaced. The console itself has the exact bytes. Reading neither wakes a VM nor takes the place of a viewer.',
    params,
    querystring: Type.Object(
      {
        tail: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: limits.consoleHistoryBytes,
            description: 'Only so many lines, the last ones. Without it, all that are kept.',
            examples: [100],
          }),
        ),
      },
      closed,
    ),
    produces: ['text/plain'],
    response: {
      200: {
        description: 'The lines. Empty if the guest has written nothing.',
        headers: requestIdHeader,
        content: { 'text/plain': { schema: Type.String() } },
      },
      ...problems('not_found', 'vm_migrated', 'vm_arriving', 'vm_not_running'),
    },
  }
  app.get('/v1/vms/:id/console/log', { schema, config: { audited: true } }, async (request, reply) => {
    const id = request.params.id as VmId
    const record = vmOf(contextOf(dependencies), id)
    const output = dependencies.consoles.output(id)
    if (output === undefined) throw new Refused(refuseWithoutOutput(record))
    const { tail: linesMax = limits.consoleHistoryBytes } = request.query
    const lines = logLines(output.bytes, { isCut: output.isCut, linesMax })
    // A browser must not take the output of a guest for a page.
    reply.headers({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
    reply.type('text/plain; charset=utf-8')
    return lines.map((line) => `${line}\n`).join('')
  })
}
