#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 fragColor;
const float k[9] = float[](1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0);
void main() { vec4 s = vec4(0.0); int n = 0; for (int y = -1; y <= 1; y++) for (int x = -1; x <= 1; x++) { if (x == 1 && y == 1) continue; s += textureOffset(u_image0, v_texCoord, ivec2(0)) * 0.0 + texelFetch(u_image0, clamp(ivec2(gl_FragCoord.xy) + ivec2(x, y), ivec2(0), textureSize(u_image0, 0) - 1), 0) * k[n++]; } fragColor = s / 16.0; }
