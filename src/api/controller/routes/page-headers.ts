export const SCRIPT_TYPE = 'text/javascript; charset=utf-8'
export const STYLE_TYPE = 'text/css; charset=utf-8'

export const securityHeaders = (policy: string): Record<string, string> => ({
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
})
