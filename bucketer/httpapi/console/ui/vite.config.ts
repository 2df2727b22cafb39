import { defineConfig } from 'vitest/config';

// Where `npm run dev` finds an API.
const api = process.env.CARILLON_API ?? 'http://127.0.0.1:8080';

// Browsers that know light-dark(). Stated, so that a newer Vite does not change what is built.
const browsers = ['chrome123', 'edge123', 'firefox124', 'safari17.5'];

// The names of what is built are stable and the files are committed: the server's ETags, not names,
// tell browsers what has changed. All addresses are relative, for a proxy with a sub-path. What is
// loaded later takes nothing from app.js, which may be of a node of another version.
export default defineConfig({
  base: './',
  // The classic calls are shorter than those with children among the properties.
  oxc: {
    jsx: { runtime: 'classic', pragma: 'jsxElement', pragmaFrag: 'JsxFragment' },
    jsxInject: "import { h as jsxElement, Fragment as JsxFragment } from 'preact';",
  },
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    sourcemap: false,
    target: browsers,
    cssTarget: browsers,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'app.js',
        chunkFileNames: '[name].js',
        assetFileNames: 'app[extname]',
      },
    },
  },
  server: { proxy: { '/v1': api, '/openapi.json': api, '/readyz': api } },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
